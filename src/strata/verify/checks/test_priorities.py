"""Priority classes of the platform."""

from __future__ import annotations

import json
from typing import Any, get_args

from strata.catalogue.needs.priority import Level
from strata.models.site import Site
from strata.verify.needs import CLUSTER, TENANTS, needs
from strata.verify.pods import Kubectl

pytestmark = needs(CLUSTER)


def test_batch_gives_way_to_interactive_and_platform(kubectl: Kubectl) -> None:
    """The classes platform, interactive and batch are in this order, and batch never preempts."""
    items = json.loads(kubectl("get", "priorityclasses", "--output=json"))["items"]
    by_name: dict[str, Any] = {item["metadata"]["name"]: item for item in items}
    ordered = [by_name[level]["value"] for level in get_args(Level)]
    assert ordered == sorted(ordered, reverse=True)
    policies = [by_name[level]["preemptionPolicy"] for level in get_args(Level)]
    assert policies == ["PreemptLowerPriority", "PreemptLowerPriority", "Never"]


@needs(TENANTS)
def test_tenants_cannot_take_the_platforms_priority(kubectl: Kubectl, site: Site) -> None:
    """The API server refuses pods of a tenant in the priority classes of services and of Kubernetes itself."""
    container = {"name": "main", "image": "none"}
    where = ("--namespace", site.platform.tenants[0].name, "--dry-run=server", "--filename=-")
    for name in ("platform", "system-node-critical", "interactive"):
        spec = {"priorityClassName": name, "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "check"}, "spec": spec}
        said = kubectl("create", *where, input=json.dumps(pod), check=False)
        assert ("forbidden-priority-classes" in said) == (name != "interactive"), said
