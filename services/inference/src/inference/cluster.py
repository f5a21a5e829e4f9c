"""What the API does in Kubernetes: the scale of the models' Deployments, and their pods' states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from inference.pod_state import PodState, state_of

MODEL_LABEL = "strata.dev/model"
"""Label of a model's pods: the name of its Deployment."""
MISSING = "its Deployment is missing; fix: strata up"


class Cluster:
    """The API server, in one namespace.

    Every method raises one of ERRORS where the server is away or refuses.

    Args:
        kubeconfig: file; None: the pod's service account.
        namespace: of the Deployments.
    """

    def __init__(self, kubeconfig: Path | None, namespace: str) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._made: AsyncClient | None = None

    @property
    def _client(self) -> AsyncClient:
        if self._made is None:
            config = KubeConfig.from_file(self._kubeconfig) if self._kubeconfig else KubeConfig.from_service_account()
            self._made = AsyncClient(config=config.get(), namespace=self._namespace)
        return self._made

    async def replicas(self, deployment: str) -> int:
        """That its Deployment shall have."""
        scale = await self._client.get(Deployment.Scale, deployment)
        return (scale.spec.replicas if scale.spec else 0) or 0

    async def scale(self, deployment: str, replicas: int) -> None:
        """Sets the number of its pods."""
        patch: dict[str, Any] = {"spec": {"replicas": replicas}}
        await self._client.patch(Deployment.Scale, deployment, patch, patch_type=PatchType.MERGE)

    async def state(self, deployment: str) -> PodState:
        """How far its pods are."""
        pods = [pod async for pod in self._client.list(Pod, labels={MODEL_LABEL: deployment})]
        if pods:
            return state_of(pods)
        # an admission that refuses its pods, for instance
        current = await self._client.get(Deployment, deployment)
        for condition in (current.status.conditions if current.status else None) or ():
            if condition.type == "ReplicaFailure" and condition.status == "True":
                return PodState("failed", condition.message or "its pod is refused")
        return PodState("starting")


def reason_of(error: Exception) -> str:
    """Why Kubernetes did not do as asked, for users."""
    if isinstance(error, ApiError) and error.status.code == 404:
        return MISSING
    if isinstance(error, ApiError):
        return f"Kubernetes refuses: {error.status.message}"
    return "Kubernetes does not respond"


ERRORS = (ApiError, ConfigError, httpx2.HTTPError, OSError)
"""Of a server that is away or refuses."""
