"""Drift of the cluster's nodes: membership, labels, taints."""

from __future__ import annotations

from typing import Any

from strata.access.kubectl import kubectl_json
from strata.drift_model import MISSING, Drift
from strata.inventory.build import Inventory, build_inventory
from strata.layers import NODES_GROUP, Layer
from strata.site.context import SiteContext


def cluster_drift(context: SiteContext) -> list[Drift]:
    """Nodes that are missing, not ready or cordoned; labels and taints of the site that a node is missing.

    Raises:
        Unanswered: the API server does not respond.
    """
    if context.site.cluster is None:
        return []
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    nodes = {n["metadata"]["name"]: n for n in kubectl_json(context, "get", "nodes")["items"]}
    return [
        drift for name in inventory.groups.get(NODES_GROUP, []) for drift in _node(name, inventory, nodes.get(name))
    ]


def wanted_marks(inventory: Inventory, host: str) -> tuple[dict[str, str], list[str]]:
    """Labels, and taints as `key=value:Effect`, that the site gives to a node."""
    labels: dict[str, str] = {}
    taints: list[str] = []
    groups = [inventory.variables.get(group, {}) for group, members in inventory.groups.items() if host in members]
    for variables in (*groups, inventory.hosts.get(host, {})):
        given: dict[str, Any] = variables
        labels |= given.get("kube_node_labels", {})
        taints += given.get("kube_node_taints", [])
    return labels, taints


def _node(name: str, inventory: Inventory, node: dict[str, Any] | None) -> list[Drift]:
    def drift(property_name: str, desired: str, actual: str) -> Drift:
        return Drift(layer=Layer.CLUSTER, object=f"node {name}", property=property_name, wanted=desired, found=actual)

    if node is None:
        return [drift("state", "Ready", MISSING)]
    drifts: list[Drift] = []
    ready = next((c for c in node["status"]["conditions"] if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        drifts.append(drift("state", "Ready", ready["reason"] if ready else "unknown"))
    if node["spec"].get("unschedulable"):
        drifts.append(drift("unschedulable", "false", "true"))
    labels, taints = wanted_marks(inventory, name)
    present = node["metadata"].get("labels", {})
    for key, value in labels.items():
        if present.get(key) != value:
            drifts.append(drift(f"label {key}", value, present.get(key, MISSING)))
    taints_found = {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", [])}
    for taint in taints:
        if taint not in taints_found:
            same_key = [t for t in taints_found if t.partition("=")[0] == taint.partition("=")[0]]
            drifts.append(drift("taint", taint, ", ".join(same_key) or MISSING))
    return drifts
