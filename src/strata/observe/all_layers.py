"""Queries all layers in parallel."""

from __future__ import annotations

import concurrent.futures
import time

from strata.observe.cloud import observe_cloud
from strata.observe.cluster import observe_cluster, observe_platform
from strata.observe.facts import NOT_UP, CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, ServiceFacts
from strata.observe.hosts import host_roles, observe_hosts
from strata.observe.services import observe_services
from strata.site.context import SiteContext


def observe(context: SiteContext) -> Observation:
    """What can be seen of the site now; changes nothing and raises for no layer that is down."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=5) as pool:
        cloud = pool.submit(observe_cloud, context)
        hosts = pool.submit(observe_hosts, context)
        cluster = pool.submit(observe_cluster, context)
        platform = pool.submit(observe_platform, context)
        services = pool.submit(observe_services, context)
        return Observation(
            cloud=cloud.result(),
            hosts=hosts.result(),
            cluster=cluster.result(),
            platform=platform.result(),
            services=services.result(),
            seconds=round(time.monotonic() - begin, 3),
        )


def nothing_seen(context: SiteContext) -> Observation:
    """An observation without any query, for a site that is only planned."""
    return Observation(
        cloud=CloudFacts(reason=NOT_UP),
        hosts={name: HostFacts(reason=NOT_UP) for name in host_roles(context)},
        cluster=ClusterFacts(reason=NOT_UP),
        platform=PlatformFacts(reason=NOT_UP),
        services=ServiceFacts(reason=NOT_UP),
        seconds=0.0,
    )
