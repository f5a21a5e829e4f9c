"""Whether the cluster's own pods run."""

from __future__ import annotations

from typing import Any

from strata.access.kubectl import Unanswered, kubectl_json
from strata.errors import UserError
from strata.progress import Progress
from strata.retry import wait_until
from strata.site.context import SiteContext

READY_SECONDS = 180.0
"""How long DNS, proxy and control plane may take, in seconds; a crashed pod is started again after up to 160 s."""
NAMESPACE = "kube-system"


def wait_for_system_pods(context: SiteContext, progress: Progress) -> None:
    """Returns when every pod of kube-system is ready.

    Raises:
        UserError: some are not in time; names each and why.
    """
    waiting: dict[str, str] = {}

    def poll() -> str | None:
        waiting.clear()
        waiting.update(not_ready(_pods(context)))
        return ", ".join(waiting) or None

    if wait_until(poll, READY_SECONDS, progress):
        raise UserError(
            f"pods of {NAMESPACE} are not ready: {'; '.join(f'{n}: {r}' for n, r in waiting.items())}",
            fix=f"kubectl -n {NAMESPACE} logs {next(iter(waiting))} --previous; kubectl -n {NAMESPACE} get events",
        )


def not_ready(pods: list[dict[str, Any]]) -> dict[str, str]:
    """Name and reason of each pod that is not ready.

    Args:
        pods: items of `kubectl get pods -o json`.
    """
    reasons: dict[str, str] = {}
    for pod in pods:
        status = pod["status"]
        if status.get("phase") == "Succeeded" or pod["metadata"].get("deletionTimestamp"):
            continue
        conditions = {c["type"]: c for c in status.get("conditions", [])}
        ready = conditions.get("Ready", {})
        if ready.get("status") == "True":
            continue
        states = [c.get("state", {}).get("waiting", {}).get("reason") for c in status.get("containerStatuses", [])]
        reason = next((s for s in states if s), None) or ready.get("reason") or status.get("phase", "unknown")
        reasons[pod["metadata"]["name"]] = str(reason)
    return reasons


def _pods(context: SiteContext) -> list[dict[str, Any]]:
    try:
        items: list[dict[str, Any]] = kubectl_json(context, "get", "pods", "--namespace", NAMESPACE)["items"]
    except Unanswered as error:
        raise UserError(
            f"the cluster does not respond: {error}", fix="`strata status SITE` shows which node or unit is down"
        ) from None
    return items
