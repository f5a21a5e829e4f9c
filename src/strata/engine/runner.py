"""Steps with dependencies; independent ones run in parallel."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strata.errors import UserError
from strata.layers import Layer, Step, StepResult
from strata.progress import Progress


@dataclass(frozen=True)
class StepReport:
    """How a step ended; `seconds` is wall time, `started` seconds after the start of the run."""

    name: str
    layer: Layer
    state: str
    seconds: float
    changed: int = 0
    detail: str = ""
    started: float = 0.0


@dataclass
class RunReport:
    """How a run of steps ended."""

    steps: list[StepReport] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def changed(self) -> int:
        """Things changed over all steps."""
        return sum(s.changed for s in self.steps)

    def layer_seconds(self) -> dict[Layer, float]:
        """Work time per layer in seconds; parallel steps count separately."""
        totals: dict[Layer, float] = {}
        for step in self.steps:
            totals[step.layer] = totals.get(step.layer, 0.0) + step.seconds
        return totals


class Display(Protocol):
    """Where the run shows what it does."""

    def started(self, step: Step) -> Progress:
        """A step begins; returns the receiver of its status messages."""

    def ended(self, report: StepReport) -> None:
        """A step ended with state done, failed or skipped."""


class Refused(UserError):
    """A step refused the run before it changed anything; shown as it is, without the step's name."""


class StepFailed(UserError):
    """A step failed; what had succeeded is kept, and the same command continues from there."""

    exit_status = 1


def run_steps(steps: Sequence[Step], display: Display, *, workers: int = 6) -> RunReport:
    """Runs the steps, each as soon as those before it are done.

    After a failure no further step starts; those under way are waited for.

    Raises:
        StepFailed: naming the first failed step and its reason.
    """
    names = {s.name for s in steps}
    waiting = {s.name: s for s in steps}
    done: set[str] = set()
    report = RunReport()
    failure: tuple[Step, BaseException] | None = None
    begin = time.monotonic()
    running: dict[concurrent.futures.Future[StepResult], tuple[Step, float]] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        while waiting or running:
            if failure is None:
                ready = [s for s in waiting.values() if all(a in done or a not in names for a in s.after)]
                for step in ready:
                    del waiting[step.name]
                    running[pool.submit(step.run, display.started(step))] = (step, time.monotonic())
            if not running:
                break
            finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in finished:
                step, started = running.pop(future)
                seconds = time.monotonic() - started
                error = future.exception()
                if error is None:
                    result = future.result()
                    done.add(step.name)
                    ended = StepReport(
                        step.name, step.layer, "done", seconds, result.changed, result.detail, started - begin
                    )
                else:
                    failure = failure or (step, error)
                    reason = (str(error) or repr(error)).splitlines()[0]
                    ended = StepReport(step.name, step.layer, "failed", seconds, detail=reason, started=started - begin)
                report.steps.append(ended)
                display.ended(ended)
    report.seconds = time.monotonic() - begin
    if failure is not None:
        step, error = failure
        if not isinstance(error, UserError):
            raise error
        raise StepFailed(f"step {step.name} failed: {error.message}", fix=error.fix) from error
    return report
