"""Commands in the container of a pod, over Kubernetes' websocket."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import structlog
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.core_v1 import Pod

from pods.logs import kubernetes_configuration
from pods.objects import CONTAINER, object_name, run_of

MOST_BYTES = 1 << 20
"""Of stdout, and of stderr, of all commands of one request."""
MOST_AT_ONCE = 10
"""Requests with commands in one process: each may hold MOST_BYTES twice, and several times that as JSON."""
MOST_OF_A_CALLER = 3
"""Of these, so that one caller's commands that hang leave room for others."""
TIMEOUT_SECONDS = 10

log = structlog.get_logger(__name__)


class Unavailable(Exception):
    """Kubernetes does not respond, or runs no more commands now; the message names it."""


class TooMany(Exception):
    """The caller's commands of earlier requests still run."""


class NotRunning(Exception):
    """There is no container of the pod's present run."""


class _Full(Exception):
    """A command wrote more than is kept."""


class Output:
    """What commands write, up to a size."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._parts: list[bytes] = []

    def write(self, content: bytes) -> None:
        """Keeps a part.

        Raises:
            _Full: it is too much.
        """
        self._parts.append(content[: self._left])
        self._left -= len(self._parts[-1])
        if len(content) > len(self._parts[-1]):
            raise _Full

    def take(self) -> str:
        """What was written since the last time."""
        text, self._parts = b"".join(self._parts).decode(errors="replace"), []
        return text


@dataclass(frozen=True)
class Execution:
    """A command that was run.

    Args:
        command: with its arguments.
        stdout: the beginning of it.
        stderr: the same; or why the command did not run to its end.
        success: it ended with status 0.
        duration_sec: seconds.
        timestamp: of its start, ISO 8601.
    """

    command: list[str]
    stdout: str
    stderr: str
    success: bool
    duration_sec: float
    timestamp: str


class Executor:
    """Runs commands for the API."""

    def __init__(self, kubeconfig: Path | None) -> None:
        self._kubeconfig = kubeconfig
        self._client: AsyncClient | None = None
        self._running: Counter[str] = Counter()

    async def run(
        self,
        caller: str,
        tenant: str,
        pod_id: str,
        run: int,
        commands: list[list[str]],
        *,
        total_seconds: float,
        command_seconds: float,
        stop_at_failure: bool,
    ) -> list[Execution]:
        """Runs commands one after the other; those that time did not suffice for are left out.

        Args:
            caller: whose commands they are.
            tenant: of the pod.
            pod_id: of the pod.
            run: of the pod that is meant; not that before it.
            commands: with their arguments.
            total_seconds: for all.
            command_seconds: for each; a command that takes longer goes on in the pod, and is not waited for.
            stop_at_failure: run none after the first without success.

        Raises:
            Unavailable, TooMany, NotRunning.
        """
        if self._running[caller] >= MOST_OF_A_CALLER:
            raise TooMany
        if self._running.total() >= MOST_AT_ONCE:
            raise Unavailable("too many commands run at this time")
        self._running[caller] += 1
        try:
            return await self._run(
                tenant, object_name(pod_id), run, commands, total_seconds, command_seconds, stop_at_failure
            )
        finally:
            self._running[caller] -= 1
            # no entry for each name that was ever seen
            self._running += Counter()

    async def _run(
        self,
        tenant: str,
        name: str,
        run: int,
        commands: list[list[str]],
        total_seconds: float,
        command_seconds: float,
        stop_at_failure: bool,
    ) -> list[Execution]:
        await self._check(tenant, name, run)
        stdout, stderr = Output(), Output()
        end = time.monotonic() + total_seconds
        executions: list[Execution] = []
        for command in commands:
            seconds = min(command_seconds, end - time.monotonic())
            if seconds <= 0:
                break
            executions.append(await self._execute(tenant, name, command, seconds, stdout, stderr))
            if stop_at_failure and not executions[-1].success:
                break
        return executions

    async def _check(self, tenant: str, name: str, run: int) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                client = self._client = self._client or AsyncClient(config=kubernetes_configuration(self._kubeconfig))
                # a pod of the run before may still be ending under this name
                if run_of(await client.get(Pod, name, namespace=tenant)) != run:
                    raise NotRunning
        except ApiError as error:
            if error.status.code == 404:
                raise NotRunning from None
            raise Unavailable("Kubernetes does not respond") from error
        except (httpx2.HTTPError, ConfigError, TimeoutError) as error:
            log.warning("Kubernetes does not respond", pod=name, reason=str(error) or type(error).__name__)
            raise Unavailable("Kubernetes does not respond") from error

    async def _execute(
        self, tenant: str, name: str, command: list[str], seconds: float, stdout: Output, stderr: Output
    ) -> Execution:
        assert self._client is not None
        began, clock, status, reason = datetime.now(UTC), time.monotonic(), -1, ""
        try:
            async with asyncio.timeout(seconds):
                done = await self._client.exec(
                    name,
                    namespace=tenant,
                    container=CONTAINER,
                    command=command,
                    # lightkube always opens it: a command that reads it would wait for its end
                    stdin=b"",
                    stdout=stdout,  # type: ignore[arg-type]  # only written to
                    stderr=stderr,  # type: ignore[arg-type]
                )
            status = done.exit_code
        except TimeoutError:
            reason = f"not waited for any longer than {seconds:.0f} s; it may go on in the pod"
        except _Full:
            reason = f"more than {MOST_BYTES} bytes of output, which are not read; it may go on in the pod"
        except ApiError as error:
            # the runtime could not start it: there is no such program, for instance
            reason = str(error.status.message)
        except WebSocketUpgradeError as error:
            reason = f"Kubernetes refused it with status {error.response.status_code}"
        except (HTTPXWSException, httpx2.HTTPError) as error:
            reason = f"the connection to the pod ended: {str(error) or type(error).__name__}"
        said = stderr.take()
        return Execution(
            command=command,
            stdout=stdout.take(),
            stderr=f"{said.rstrip()}\n{reason}".lstrip() if reason else said,
            success=status == 0,
            duration_sec=round(time.monotonic() - clock, 3),
            timestamp=began.isoformat(),
        )
