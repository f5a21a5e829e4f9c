"""What the tests need of a cluster, and what they leave on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strata.access.kubectl import Unanswered, kubectl, kubectl_json
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext

NAMESPACE_LABEL = "e2e-framework"
"""Label of every namespace that the tests create."""
_KUBERNETES_OWN = "node.kubernetes.io/"
"""Taints of nodes that are not ready."""
_DELETE_SECONDS = 300.0


def identity(context: SiteContext) -> str:
    """What distinguishes a cluster from the former one in its place.

    Raises:
        UserError: the cluster cannot be reached.
    """
    return str(_ask(context, "get", "namespace", "kube-system")["metadata"]["uid"])


def taints(context: SiteContext) -> tuple[str, ...]:
    """Keys of the taints that the site gives to nodes; the tests leave these nodes alone.

    Raises:
        UserError: the cluster cannot be reached, or every node is tainted.
    """
    return taints_of(_ask(context, "get", "nodes")["items"])


def taints_of(nodes: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Keys of the taints of nodes. Errors as of `taints`."""
    taints = [{taint["key"] for taint in node["spec"].get("taints") or []} for node in nodes]
    if all(taints):
        raise UserError(
            "the tests need a node without taints; there is none among "
            + (", ".join(node["metadata"]["name"] for node in nodes) or "no nodes"),
            fix="see `kubectl describe nodes`; add an instance with the role kube_node and without accelerators",
        )
    return tuple(sorted(key for key in set[str]().union(*taints) if not key.startswith(_KUBERNETES_OWN)))


def delete_namespaces(context: SiteContext, progress: Progress) -> None:
    """Deletes the tests' namespaces, and waits until they are gone.

    Raises:
        UserError: the cluster cannot be reached, or they do not go.
    """
    namespaces = [
        item["metadata"]["name"] for item in _ask(context, "get", "namespaces", "-l", NAMESPACE_LABEL)["items"]
    ]
    if not namespaces:
        return
    progress.update(f"deleting {len(namespaces)} namespaces of tests")
    limit = f"--timeout={_DELETE_SECONDS:.0f}s"
    try:
        kubectl(context, "delete", "namespaces", *namespaces, "--ignore-not-found", limit, seconds=_DELETE_SECONDS + 10)
    except Unanswered as error:
        raise UserError(
            f"namespaces of tests remain: {error}", fix=f"kubectl get namespaces -l {NAMESPACE_LABEL}"
        ) from None


def _ask(context: SiteContext, *arguments: str) -> Any:
    try:
        return kubectl_json(context, *arguments)
    except Unanswered as error:
        name = context.site.name
        raise UserError(
            f"site {name}: kubectl {arguments[0]} {arguments[1]}: {error}", fix=f"strata up {name}"
        ) from None
