"""Asks the API server, and helm for its releases."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from strata.access.helm import helm_releases
from strata.access.kubectl import Unanswered, kubectl_json
from strata.observe.facts import NOT_UP, OBSERVE_SECONDS, ClusterFacts, PlatformFacts, PodFacts
from strata.observe.workloads import KINDS, in_trouble, warnings, workloads
from strata.site.context import SiteContext


def observe_cluster(context: SiteContext) -> ClusterFacts:
    """Nodes, pods and workloads; a cluster that does not respond has the reason."""
    if context.site.cluster is None:
        return ClusterFacts(reason=NOT_UP)
    resources = {card.resource for card in context.site.accelerators.values()}
    try:
        kinds = ",".join(("nodes", "pods", *KINDS))
        answer = kubectl_json(context, "get", kinds, "--all-namespaces", seconds=OBSERVE_SECONDS)
        events = _warnings(context) if in_trouble(answer["items"]) else []
    except Unanswered as error:
        return ClusterFacts(reason=str(error))
    nodes: dict[str, str] = {}
    cards: dict[str, dict[str, int]] = {}
    unhealthy: dict[str, dict[str, int]] = {}
    pods: list[PodFacts] = []
    for item in answer["items"]:
        if item["kind"] == "Node":
            name = item["metadata"]["name"]
            nodes[name] = _ready(item)
            allocatable: Mapping[str, str] = item["status"].get("allocatable", {})
            cards[name] = {r: int(n) for r, n in allocatable.items() if r in resources}
            # the kubelet counts broken cards in the capacity only
            capacity = {r: int(n) for r, n in item["status"].get("capacity", {}).items() if r in resources}
            if lost := {r: more for r, n in capacity.items() if (more := n - cards[name].get(r, 0)) > 0}:
                unhealthy[name] = lost
        elif item["kind"] == "Pod" and item["status"].get("phase") not in ("Succeeded", "Failed"):
            pods.append(_pod(item, resources))
    observed = workloads(answer["items"], warnings(events))
    return ClusterFacts(nodes=nodes, cards=cards, unhealthy=unhealthy, pods=tuple(pods), workloads=observed)


def _warnings(context: SiteContext) -> list[Mapping[str, Any]]:
    """Events that show what is wrong."""
    options = ("--all-namespaces", "--field-selector", "type=Warning")
    events: list[Mapping[str, Any]] = kubectl_json(context, "get", "events", *options, seconds=OBSERVE_SECONDS)["items"]
    return events


def _ready(node: Mapping[str, Any]) -> str:
    condition = next((c for c in node["status"].get("conditions", []) if c["type"] == "Ready"), None)
    if condition is None:
        return "no condition yet"
    return "Ready" if condition["status"] == "True" else str(condition.get("reason") or condition["status"])


def _pod(item: Mapping[str, Any], resources: AbstractSet[str]) -> PodFacts:
    devices: dict[str, int] = {}
    for container in item["spec"]["containers"]:
        for resource, count in container.get("resources", {}).get("limits", {}).items():
            if resource in resources:
                devices[resource] = devices.get(resource, 0) + int(count)
    conditions = {c["type"]: c["status"] for c in item["status"].get("conditions", [])}
    metadata = item["metadata"]
    return PodFacts(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=item["spec"].get("nodeName"),
        ready=conditions.get("Ready") == "True",
        devices=devices,
    )


def observe_platform(context: SiteContext) -> PlatformFacts:
    """Releases; a cluster that does not respond has the reason."""
    if context.site.cluster is None:
        return PlatformFacts(reason=NOT_UP)
    try:
        releases = helm_releases(context, "--all", seconds=OBSERVE_SECONDS)
    except Unanswered as error:
        return PlatformFacts(reason=str(error))
    return PlatformFacts(releases={f"{r['namespace']}/{r['name']}": str(r["status"]) for r in releases})
