"""Services of the site as users and hosts reach them."""

from __future__ import annotations

from strata.catalogue.needs.hostname import PublishedService
from strata.catalogue.needs.hostname import published as published_services
from strata.models import Site
from strata.roles import roles
from strata.site.hosts import address_of
from strata.site.outputs import CloudOutputs

__all__ = ["PublishedService", "published_services", "service_names"]


def service_names(site: Site, outputs: CloudOutputs | None) -> list[dict[str, str]]:
    """`name`, fully qualified, and `address` of each service that runs on hosts or behind the load balancer.

    Args:
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    names = [
        {"name": f"{name}.{site.domain}", "address": address}
        for role, facts in roles().items()
        if (address := address_of(role, site, outputs)) is not None
        for name in facts.dns_names
    ]
    load_balancer = address_of("load_balancer", site, outputs)
    if load_balancer is not None:
        # services may share one
        hosts = dict.fromkeys(service.host for service in published_services(site))
        names += [{"name": host, "address": load_balancer} for host in hosts]
    return names
