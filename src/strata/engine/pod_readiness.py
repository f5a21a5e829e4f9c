"""Whether the cluster's own pods run."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from strata.errors import UserError
from strata.progress import Progress
from strata.site.paths import SitePaths

READY_SECONDS = 180.0
"""How long DNS, proxy and control plane may take, in seconds; a crashed pod is started again after up to 160 s."""
NAMESPACE = "kube-system"


def wait_for_system_pods(paths: SitePaths, progress: Progress) -> None:
    """Returns when every pod of kube-system is ready.

    Raises:
        UserError: some are not in time; names each and why.
    """
    end = time.monotonic() + READY_SECONDS
    while True:
        waiting = not_ready(_pods(paths))
        if not waiting:
            return
        if time.monotonic() > end:
            raise UserError(
                f"pods of {NAMESPACE} are not ready: {'; '.join(f'{n}: {r}' for n, r in waiting.items())}",
                fix=f"kubectl -n {NAMESPACE} logs {next(iter(waiting))} --previous; kubectl -n {NAMESPACE} get events",
            )
        progress.update(f"waiting for {', '.join(waiting)}")
        time.sleep(0.5)


def not_ready(pods: list[dict[str, Any]]) -> dict[str, str]:
    """Name and reason of each pod that is not ready.

    Args:
        pods: items of `kubectl get pods -o json`.
    """
    found: dict[str, str] = {}
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
        found[pod["metadata"]["name"]] = str(reason)
    return found


def _pods(paths: SitePaths) -> list[dict[str, Any]]:
    from strata.toolchain import bin_directory

    command = [str(bin_directory() / "kubectl"), "--kubeconfig", str(paths.kubeconfig), "--request-timeout=15s"]
    done = subprocess.run(
        [*command, "get", "pods", "--namespace", NAMESPACE, "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer"
        raise UserError(
            f"the cluster does not answer: {reason}", fix="`strata status SITE` shows which node or unit is down"
        )
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return items
