"""Logs of pods, read from Kubernetes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import structlog
from lightkube import AsyncClient, KubeConfig
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.core_v1 import Pod

from pods.objects import CONTAINER, object_name, run_of

TAIL_LINES = 500
TAIL_CHARACTERS = 65_536
TIMEOUT_SECONDS = 5

log = structlog.get_logger(__name__)


def kubernetes_configuration(kubeconfig: Path | None) -> SingleConfig:
    """How to reach the API server: by a file, or by the pod's service account."""
    configuration = KubeConfig.from_service_account() if kubeconfig is None else KubeConfig.from_file(kubeconfig)
    current = configuration.get()
    assert current is not None
    return current


def tail(lines: list[str]) -> str:
    """The end of a log, of a size that PostgreSQL and clients take."""
    return "".join(lines)[-TAIL_CHARACTERS:].replace("\0", "\N{REPLACEMENT CHARACTER}")


class Reader:
    """Reads logs for the API; without Kubernetes, there are none."""

    def __init__(self, kubeconfig: Path | None) -> None:
        self._kubeconfig = kubeconfig
        self._client: AsyncClient | None = None

    async def read(self, tenant: str, pod_id: str, run: int) -> str:
        """The end of the log of a run; empty where there is none, or Kubernetes does not respond."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._read(tenant, object_name(pod_id), run)
        except ApiError as error:
            # not found, or not started yet
            log.info("no log", pod=pod_id, reason=str(error.status.message))
        except (httpx2.HTTPError, ConfigError, TimeoutError) as error:
            log.warning("Kubernetes does not respond", pod=pod_id, reason=str(error) or type(error).__name__)
        return ""

    async def _read(self, tenant: str, name: str, run: int) -> str:
        client = self._client = self._client or AsyncClient(config=kubernetes_configuration(self._kubeconfig))
        # a pod of the run before may still be ending under this name
        if run_of(await client.get(Pod, name, namespace=tenant)) != run:
            return ""
        lines = client.log(name, namespace=tenant, container=CONTAINER, tail_lines=TAIL_LINES)
        return tail([line async for line in lines])
