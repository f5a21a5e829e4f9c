"""Runs a batch so that each of its jobs ends with a result or with its own failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterator, Sequence

from model_server.backend import Backend, BrokenError, OutOfMemoryError, Prepared, RefusedError
from model_server.jobs import Event, Failed, Job, Part

LOG = logging.getLogger(__name__)

TIMED_OUT = Failed(504, "timeout", "the request was not served in time; send it again later, or set a lower max_tokens")
OUT_OF_MEMORY = Failed(
    507, "out_of_memory", "the model server has too little memory for this request; shorten the input or max_tokens"
)
MODEL_ERROR = Failed(500, "model_error", "the model failed on this input; the log of the model server has the error")
INTERRUPTED = Failed(503, "interrupted", "another request of the batch failed after the stream began; send it again")

Member = tuple[int, Prepared]


def run_batch(backend: Backend, jobs: Sequence[Job]) -> Iterator[tuple[int, Event]]:
    """Runs jobs that arrived together.

    A batch that runs out of memory is halved; in one that fails otherwise, each job runs alone.

    Returns:
        Position of the job, and what happened; last of each a result or a failure.

    Raises:
        BrokenError: the device is lost.
    """
    groups: dict[Hashable, list[Member]] = {}
    for position, job in enumerate(jobs):
        if time.monotonic() >= job.deadline:
            yield position, TIMED_OUT
            continue
        try:
            prepared = backend.prepare(job)
        except RefusedError as refused:
            yield position, refused.failure
        except Exception:
            LOG.exception("an input cannot be read")
            yield position, MODEL_ERROR
        else:
            groups.setdefault(prepared.group, []).append((position, prepared))
    for members in groups.values():
        yield from _run(backend, members)


def _run(backend: Backend, members: list[Member]) -> Iterator[tuple[int, Event]]:
    begun: set[int] = set()
    ended: set[int] = set()
    try:
        for index, event in backend.run([prepared for _, prepared in members]):
            position = members[index][0]
            (begun if isinstance(event, Part) else ended).add(position)
            yield position, event
        return
    except BrokenError:
        raise
    except OutOfMemoryError:
        backend.free_memory()
        failure, pieces = OUT_OF_MEMORY, 2
        LOG.warning("out of memory with %d inputs, the longest of %d tokens", len(members), _longest(members))
    except Exception:
        failure, pieces = MODEL_ERROR, len(members)
        LOG.exception("a batch of %d failed", len(members))
    left = [member for member in members if member[0] not in ended]
    if len(members) == 1:
        yield from ((position, failure) for position, _ in left)
        return
    # what a client has read cannot be undone, and sampling again gives another text
    yield from ((position, INTERRUPTED) for position, _ in left if position in begun)
    left = [member for member in left if member[0] not in begun]
    size = -(-len(left) // pieces) or 1
    for start in range(0, len(left), size):
        yield from _run(backend, left[start : start + size])


def _longest(members: Sequence[Member]) -> int:
    return max(len(prepared.tokens) for _, prepared in members)
