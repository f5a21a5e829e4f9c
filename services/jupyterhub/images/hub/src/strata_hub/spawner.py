"""The spawner that shows which datasets a server does not get."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kubespawner import KubeSpawner

from strata_hub.datasets import CONTAINER

Report = Mapping[str, Any]


class DatasetError(Exception):
    """A required dataset is unreachable; JupyterHub shows `jupyterhub_message`."""

    def __init__(self, report: list[Report]) -> None:
        missing = "; ".join(f"{dataset['name']}: {dataset['reason']}" for dataset in report if dataset["required"])
        self.jupyterhub_message = (
            f"required datasets are unreachable: {missing}. Try again, or ask your tenant's administrators"
        )
        super().__init__(self.jupyterhub_message)


def unreachable(pod: Mapping[str, Any] | None) -> list[Report] | None:
    """What the init container of a pod reported: `name`, `required` and `reason` of each unreachable dataset; None if
    it has not ended yet, or the pod has none.

    Args:
        pod: as Kubernetes' API returns it.
    """
    for status in (pod or {}).get("status", {}).get("initContainerStatuses") or ():
        if status["name"] == CONTAINER:
            # the kubelet starts a container again that failed
            states = (status.get("state") or {}, status.get("lastState") or {})
            ended = next((state["terminated"] for state in states if state.get("terminated")), None)
            try:
                report: list[Report] = json.loads((ended or {}).get("message") or "")
            except ValueError:
                return None
            return report
    return None


class DatasetSpawner(KubeSpawner):  # type: ignore[misc]
    """Ends a start at once if a required dataset is unreachable, and names the others on the page of the start."""

    def is_pod_running(self, pod: Mapping[str, Any] | None) -> bool:
        """As KubeSpawner's, which calls it while it waits for the pod.

        Raises:
            DatasetError: a required dataset is unreachable.
        """
        report = unreachable(pod) or []
        # a pod that its node starts again is not for the hub to end
        if self.pending == "spawn" and any(dataset["required"] for dataset in report):
            raise DatasetError(report)
        return bool(super().is_pod_running(pod))

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """KubeSpawner's events, and the unreachable datasets as soon as they are known."""
        shown, progress = False, 0
        async for event in super().progress():
            progress = event["progress"]
            yield event
            if not shown and (text := self._unreachable()):
                shown = True
                yield {"progress": progress, "message": text}
        # the pod's status may come after its last event
        if not shown and (text := self._unreachable()):
            yield {"progress": progress, "message": text}

    def _unreachable(self) -> str:
        reflector = self.pod_reflector
        report = unreachable(reflector.pods.get(f"{self.namespace}/{self.pod_name}")) if reflector else None
        return (
            "Unreachable datasets: " + "; ".join(f"{dataset['name']}: {dataset['reason']}" for dataset in report)
            if report
            else ""
        )
