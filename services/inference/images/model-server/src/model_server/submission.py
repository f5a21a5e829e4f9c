"""The way of jobs to the model: a bounded queue, and a limit of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from model_server.batches import TIMED_OUT
from model_server.errors import FailedError
from model_server.jobs import Event, Failed, Job, Part, Result
from model_server.metrics import Metrics

GRACE = 1.0
"""Seconds after the deadline until a job is given up that the model has not ended by itself."""


class Transport(Protocol):
    """Carries jobs to the process of the model."""

    def send(self, job: Job) -> AsyncGenerator[Event, None]:
        """The events of a job, the last one a result or a failure; closed early, later ones are dropped."""

    def ready(self) -> bool:
        """Whether the model is loaded."""


class Submission:
    """Sends jobs within the limits.

    Args:
        transport: to the model.
        size: inputs that may wait or run.
        metrics: count what is sent.
    """

    def __init__(self, transport: Transport, size: int, metrics: Metrics) -> None:
        self._transport = transport
        self._size = size
        self._metrics = metrics
        self._queued = 0

    def ready(self) -> bool:
        """Whether the model is loaded."""
        return self._transport.ready()

    def _reserve(self, count: int) -> None:
        if self._queued + count > self._size:
            raise FailedError(
                Failed(
                    429,
                    "queue_full",
                    f"{self._queued} inputs wait, of {self._size} at most; send the request again after Retry-After",
                )
            )
        self._queued += count
        self._metrics.queued.set(self._queued)

    def _release(self) -> None:
        self._queued -= 1
        self._metrics.queued.set(self._queued)

    async def results(self, jobs: Sequence[Job]) -> list[Result]:
        """Runs all jobs.

        Raises:
            FailedError: the queue is full, or one failed.
        """
        self._reserve(len(jobs))
        return list(await asyncio.gather(*(self._result(job) for job in jobs)))

    async def _result(self, job: Job) -> Result:
        async with aclosing(self._events(job)) as events:
            async for event in events:
                if not isinstance(event, Part):
                    return event
        raise AssertionError("a job ends with a result or a failure")

    async def stream(self, job: Job) -> AsyncGenerator[Part | Result, None]:
        """Runs a job up to its first part, so that a failure before it is a response of its own.

        Returns:
            The job's events; raises FailedError.

        Raises:
            FailedError: the queue is full, or it failed.
        """
        self._reserve(1)
        events = self._events(job)
        first = await anext(events)

        async def whole() -> AsyncGenerator[Part | Result, None]:
            async with aclosing(events):
                yield first
                async for event in events:
                    yield event

        return whole()

    async def _events(self, job: Job) -> AsyncGenerator[Part | Result, None]:
        """The events of a job with a place in the queue, which it gives back."""
        try:
            async with aclosing(self._transport.send(job)) as events:
                while True:
                    try:
                        async with asyncio.timeout(max(0.0, job.deadline - time.monotonic()) + GRACE):
                            event = await anext(events)
                    except TimeoutError:
                        raise FailedError(TIMED_OUT) from None
                    if isinstance(event, Failed):
                        raise FailedError(event)
                    if not isinstance(event, Part):
                        self._metrics.tokens.labels("in").inc(event.usage.tokens_in)
                        self._metrics.tokens.labels("out").inc(event.usage.tokens_out)
                        self._metrics.batch.observe(event.usage.batch)
                        yield event
                        return
                    yield event
        finally:
            self._release()
