"""What the batches need of a model; the tests have one without a neural network."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from model_server.jobs import Event, Failed, Job


class RefusedError(Exception):
    """A request that the model cannot serve; others are not concerned."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message)
        self.failure = failure


class OutOfMemoryError(Exception):
    """The batch needs more memory than there is; the model goes on with a smaller one."""


class BrokenError(Exception):
    """The device cannot be used any more; only a new process can."""


@dataclass(frozen=True)
class Prepared:
    """A job as the model reads it.

    Args:
        job: as it was sent.
        tokens: the input.
        max_tokens: tokens to generate at most.
        group: jobs run together if theirs are equal.
    """

    job: Job
    tokens: tuple[int, ...]
    max_tokens: int = 0
    group: Hashable = None


class Backend(Protocol):
    """A loaded model."""

    def prepare(self, job: Job) -> Prepared:
        """Reads one job.

        Raises:
            RefusedError: it is not for this model, or too long.
        """

    def run(self, batch: Sequence[Prepared]) -> Iterator[tuple[int, Event]]:
        """Runs jobs of one group; each one's last event is a result.

        Returns:
            Position in the batch, and what happened there.

        Raises:
            OutOfMemoryError: the batch is too large.
            BrokenError: the device is lost.
        """

    def free_memory(self) -> None:
        """Frees what a batch left behind that ran out of memory."""
