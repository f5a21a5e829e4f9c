"""Job queues: Kueue admits to each tenant's queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strata.verify.pods import Kubectl
from strata_services.job_queues.service import SERVICE

if TYPE_CHECKING:
    from strata.site.context import SiteContext


@pytest.fixture(scope="module")
def tenants(context: SiteContext) -> list[str]:
    """Of a site with job queues."""
    if SERVICE.of(context.site) is None:
        pytest.skip(f"site {context.site.name} has no platform.services.{SERVICE.key}")
    return [tenant.name for tenant in context.site.platform.tenants]


def test_each_tenant_has_an_active_queue(kubectl: Kubectl, tenants: list[str]) -> None:
    """Kueue has every tenant's ClusterQueue active, and a LocalQueue `default` in the namespace leads to it."""
    queues = json.loads(kubectl("get", "clusterqueues", "--output", "json"))["items"]
    states = {
        queue["metadata"]["name"]: {c["type"]: c["status"] for c in queue["status"]["conditions"]} for queue in queues
    }
    assert {name: states.get(name, {}).get("Active") for name in tenants} == dict.fromkeys(tenants, "True")
    local = json.loads(kubectl("get", "localqueues", "--all-namespaces", "--output", "json"))["items"]
    targets = {
        queue["metadata"]["namespace"]: queue["spec"]["clusterQueue"]
        for queue in local
        if queue["metadata"]["name"] == "default"
    }
    assert {name: targets.get(name) for name in tenants} == {name: name for name in tenants}
