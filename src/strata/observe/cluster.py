"""Asks the API server, and helm for its releases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from strata.models.accelerators import CATALOGUE
from strata.observe.facts import NOT_UP, ClusterFacts, PlatformFacts, PodFacts
from strata.site.context import SiteContext

ANSWER_SECONDS = 20
RESOURCES = frozenset(card.resource for card in CATALOGUE.values())


def _json(context: SiteContext, *command: str) -> tuple[Any, str | None]:
    """The answer, or None and the reason."""
    from strata.access.environment import site_environment
    from strata.toolchain import tools_environment

    if not context.paths.kubeconfig.exists():
        return None, NOT_UP
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=tools_environment() | site_environment(context),
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"unreachable: no answer within {ANSWER_SECONDS} s"
    except OSError as error:
        return None, f"unreachable: {command[0]}: {error.strerror}"
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        return None, f"unreachable: {said[-1][:120] if said else command[0]}"
    return json.loads(done.stdout), None


def observe_cluster(context: SiteContext) -> ClusterFacts:
    """Nodes and pods; a cluster that does not answer says why."""
    if context.site.cluster is None:
        return ClusterFacts(reason=NOT_UP)
    command = ("kubectl", "get", "nodes,pods", "--all-namespaces", "-o", "json", "--request-timeout=10s")
    answer, reason = _json(context, *command)
    if reason is not None:
        return ClusterFacts(reason=reason)
    nodes: dict[str, str] = {}
    cards: dict[str, dict[str, int]] = {}
    pods: list[PodFacts] = []
    for item in answer["items"]:
        if item["kind"] == "Node":
            name = item["metadata"]["name"]
            nodes[name] = _ready(item)
            allocatable: Mapping[str, str] = item["status"].get("allocatable", {})
            cards[name] = {r: int(n) for r, n in allocatable.items() if r in RESOURCES}
        elif item["status"].get("phase") not in ("Succeeded", "Failed"):
            pods.append(_pod(item))
    return ClusterFacts(nodes=nodes, cards=cards, pods=tuple(pods))


def _ready(node: Mapping[str, Any]) -> str:
    condition = next((c for c in node["status"].get("conditions", []) if c["type"] == "Ready"), None)
    if condition is None:
        return "no condition yet"
    return "Ready" if condition["status"] == "True" else str(condition.get("reason") or condition["status"])


def _pod(item: Mapping[str, Any]) -> PodFacts:
    devices: dict[str, int] = {}
    for container in item["spec"]["containers"]:
        for resource, count in container.get("resources", {}).get("limits", {}).items():
            if resource in RESOURCES:
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
    """Releases; a cluster that does not answer says why."""
    if context.site.cluster is None:
        return PlatformFacts(reason=NOT_UP)
    answer, reason = _json(context, "helm", "list", "--all-namespaces", "--all", "--output", "json")
    if reason is not None:
        return PlatformFacts(reason=reason)
    return PlatformFacts(releases={str(r["name"]): str(r["status"]) for r in answer})
