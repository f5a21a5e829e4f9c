"""One model: started by the first request, stopped when none has come for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import httpx2
import structlog

from inference.cluster import ERRORS, Cluster, reason_of
from inference.counts import Counts
from inference.pod_state import PodState
from inference.settings import ModelSettings, Settings

LOOK_SECONDS = 0.25
"""Between two looks at a model that starts."""
REASON_SECONDS = 10.0
"""For which a reason must last before requests are refused with it: nodes may get room, pulls are repeated."""
PROBE_SECONDS = 2.0

State = Literal["stopped", "starting", "ready", "failed"]

log = structlog.get_logger(__name__)


class Busy(Exception):
    """More requests wait or run than the limit."""


class Unavailable(Exception):
    """The model does not start, or not yet.

    Args:
        reason: for users.
        retry_after: when a request may succeed, in seconds.
    """

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.reason, self.retry_after = reason, retry_after


class Runtime:
    """What the process knows of one model.

    A new process counts its own start as a use, because it does not know the last one.

    Args:
        model: its settings.
        settings: limits and times.
        cluster: where it runs.
        client: for its /readyz.
        counts: metrics.
    """

    def __init__(
        self, model: ModelSettings, settings: Settings, cluster: Cluster, client: httpx2.AsyncClient, counts: Counts
    ) -> None:
        self.model = model
        self.state: State = "stopped"
        self.reason = ""
        self._settings, self._cluster, self._client, self._counts = settings, cluster, client, counts
        self._in_hand = 0
        self._used = time.monotonic()
        self._starting: asyncio.Task[None] | None = None
        # of changes of the scale: without it, a stop could overtake the start after it
        self._scaling = asyncio.Lock()
        for tenant in model.tenants:
            counts.begin(model.id, tenant)
        counts.in_hand.labels(model.id).set_function(lambda: float(self._in_hand))

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        """While a request waits or runs, the model is not stopped.

        Raises:
            Busy: too many do.
        """
        if self._in_hand >= self._settings.model_requests:
            raise Busy(f"{self._in_hand} requests to {self.model.id} wait or run; try again")
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1
            self._used = time.monotonic()

    async def ready(self, *, again: bool = False) -> None:
        """Returns when the model responds; the first of several requests starts it.

        Args:
            again: whether its server was just found to be gone.

        Raises:
            Unavailable: it does not start, or not in time.
        """
        if self.state == "ready" and not again:
            return
        if self._starting is None or self._starting.done():
            if again:
                self.state = "starting"
            self._starting = asyncio.create_task(self._start())
            # a failure is passed to those that wait, and there may be none left
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        # a client that leaves does not end the start of the others
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        begin = time.monotonic()
        try:
            await self._started(begin)
        except Unavailable as error:
            self._counts.starts.labels(self.model.id, "failed").inc()
            log.warning("model does not start", model=self.model.id, reason=error.reason)
            raise
        self._counts.starts.labels(self.model.id, "ready").inc()
        self._counts.start_seconds.labels(self.model.id).observe(time.monotonic() - begin)
        log.info("model started", model=self.model.id, seconds=round(time.monotonic() - begin, 1))

    async def _started(self, begin: float) -> None:
        failed_since: float | None = None
        asked = False
        while True:
            now = time.monotonic()
            try:
                if not asked:
                    async with self._scaling:
                        # also where it is 1 already: that of a moment ago may be a stop's
                        await self._cluster.scale(self.model.deployment, 1)
                    self._counts.replicas.labels(self.model.id).set(1)
                    asked = True
                pod = await self._cluster.state(self.model.deployment)
            except ERRORS as error:
                pod = PodState("failed", reason_of(error))
            if pod.phase == "ready" and await self._responds():
                self.state, self.reason = "ready", ""
                return
            known = self.state == "failed"
            if pod.phase == "failed":
                failed_since = failed_since or now
                # a reason that was refused with before is not waited for again
                if known or now - failed_since >= REASON_SECONDS:
                    self.state, self.reason = "failed", pod.reason
                    raise Unavailable(f"model {self.model.id} does not start: {pod.reason}", 30)
            else:
                failed_since = None
                self.state, self.reason = "starting", ""
            if now - begin >= self._settings.start_seconds:
                raise Unavailable(f"model {self.model.id} is still starting; try again", 10)
            await asyncio.sleep(LOOK_SECONDS)

    async def _responds(self) -> bool:
        try:
            answer = await self._client.get(f"{self.model.url}/readyz", timeout=PROBE_SECONDS)
        except httpx2.HTTPError:
            return False
        return answer.status_code == 200

    async def check(self) -> None:
        """Compares with the cluster, and stops the model if it is idle. Errors of the cluster are logged."""
        try:
            async with self._scaling:
                replicas = await self._cluster.replicas(self.model.deployment)
                if replicas and self._idle():
                    # before the change: a request that comes now starts it again, after the change
                    self.state = "stopped"
                    await self._cluster.scale(self.model.deployment, 0)
                    log.info("model stopped", model=self.model.id, idle_seconds=self.model.idle_seconds)
                    replicas = 0
            self._counts.replicas.labels(self.model.id).set(replicas)
            if self._starting is None or self._starting.done():
                await self._observe(replicas)
        except ERRORS as error:
            log.warning("Kubernetes does not do as asked", model=self.model.id, reason=reason_of(error))

    async def _observe(self, replicas: int) -> None:
        """Learns what others changed: a new process, a pod that ended, a scale by hand."""
        if not replicas:
            self.state, self.reason = "stopped", ""
            return
        pod = await self._cluster.state(self.model.deployment)
        # a start or a stop may have begun meanwhile, and knows better
        if self._scaling.locked() or not (self._starting is None or self._starting.done()):
            return
        self.state, self.reason = pod.phase, pod.reason

    def _idle(self) -> bool:
        return not self._in_hand and time.monotonic() - self._used >= self.model.idle_seconds
