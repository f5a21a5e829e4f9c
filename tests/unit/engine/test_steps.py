"""The order of steps and what happens when one fails."""

from __future__ import annotations

import threading

import pytest

from strata.engine.runner import StepFailed, StepReport, run_steps
from strata.errors import UserError
from strata.layers import Layer, Step, StepResult
from strata.progress import Progress, Silent


class Recorder:
    def __init__(self) -> None:
        self.events: list[str] = []

    def started(self, step: Step) -> Progress:
        self.events.append(f"+{step.name}")
        return Silent()

    def ended(self, report: StepReport) -> None:
        self.events.append(f"-{report.name}:{report.state}")


def step(name: str, *after: str, changed: int = 0) -> Step:
    return Step(name, Layer.CLOUD, lambda _: StepResult(changed), after)


def test_a_step_waits_for_those_before_it() -> None:
    recorder = Recorder()
    report = run_steps([step("c", "b"), step("b", "a", changed=2), step("a")], recorder)
    assert recorder.events == ["+a", "-a:done", "+b", "-b:done", "+c", "-c:done"]
    assert report.changed == 2


def test_steps_without_need_of_each_other_run_in_parallel() -> None:
    barrier = threading.Barrier(2, timeout=60)

    def meet(_: Progress) -> StepResult:
        barrier.wait()
        return StepResult()

    report = run_steps([Step("a", Layer.CLOUD, meet), Step("b", Layer.HOSTS, meet)], Recorder())
    assert {s.state for s in report.steps} == {"done"}


def test_a_dependency_outside_the_chosen_steps_is_taken_as_deployed() -> None:
    assert run_steps([step("hosts", "cloud")], Recorder()).steps[0].state == "done"


def test_after_a_failure_nothing_further_starts_and_the_reason_is_reported() -> None:
    def fail(_: Progress) -> StepResult:
        raise UserError("nova says no valid host", fix="add a hypervisor")

    recorder = Recorder()
    with pytest.raises(StepFailed, match="step a failed: nova says no valid host") as error:
        run_steps([Step("a", Layer.CLOUD, fail), step("b", "a")], recorder)
    assert error.value.fix == "add a hypervisor"
    assert recorder.events == ["+a", "-a:failed"]


def test_a_bug_is_not_dressed_up_as_a_user_error() -> None:
    def bug(_: Progress) -> StepResult:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_steps([Step("a", Layer.CLOUD, bug)], Recorder())
