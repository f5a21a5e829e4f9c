"""What a benchmark measures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from strata.progress import Progress

PERCENTILE_SAMPLES = 100


class Measure(BaseModel):
    """One quantity with all its samples.

    `unit` is `s`, `ms` or `MiB`; `note` states what the reader must know to compare it.
    """

    model_config = ConfigDict(frozen=True)
    benchmark: str
    what: str
    unit: str
    samples: tuple[float, ...]
    note: str = ""

    @property
    def minimum(self) -> float:
        """Smallest sample."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """Middle sample."""
        return statistics.median(self.samples)

    @property
    def percentile_95(self) -> float | None:
        """Which 95 of 100 samples do not exceed (by nearest rank); None for fewer than 100 samples."""
        if len(self.samples) < PERCENTILE_SAMPLES:
            return None
        return sorted(self.samples)[math.ceil(0.95 * len(self.samples)) - 1]

    @property
    def maximum(self) -> float:
        """Largest sample."""
        return max(self.samples)


class Machine(BaseModel):
    """Where it was measured."""

    model_config = ConfigDict(frozen=True)
    processor: str
    processors: int
    memory_gib: float
    kernel: str
    system: str
    date: str
    commit: str
    load_before: float
    """Processes that could have run in the seconds before: above zero, others were at work too."""


class Span(BaseModel):
    """A stretch of time and what it was made of, for the breakdown; times in seconds."""

    model_config = ConfigDict(frozen=True)
    name: str
    started: float
    seconds: float
    inner: tuple[Span, ...] = ()


class Results(BaseModel):
    """All that one run of `scripts/bench` found."""

    model_config = ConfigDict(frozen=True)
    machine: Machine
    measures: tuple[Measure, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass
class Bench:
    """What a benchmark is given.

    Args:
        runs: how often each thing is measured.
        progress: receives status messages.
        directory: of its own, removed afterwards.
        site_file: a running site to measure on; None to make one and destroy it.
        allow_changes: whether that site may be stopped and changed.
    """

    runs: int
    progress: Progress
    directory: Path
    site_file: Path | None = None
    allow_changes: bool = False
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Benchmark:
    """One benchmark by name.

    Args:
        name: typed on the command line.
        title: heading in docs/benchmarks.md.
        what: one line.
        needs: the layer that must be up, `site` for a lab that it brings up itself, or `nothing`.
        run: measures.
    """

    name: str
    title: str
    what: str
    needs: str
    run: Callable[[Bench], Iterable[Measure]]
