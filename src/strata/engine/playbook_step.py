"""A step that runs one of Strata's playbooks, where it has anything to do."""

from __future__ import annotations

from collections.abc import Callable

from strata.engine import playbook_state
from strata.engine.ansible import run_playbook
from strata.layers import StepResult
from strata.progress import Progress
from strata.site.context import SiteContext


def playbook_step(context: SiteContext, name: str, thorough: bool) -> Callable[[Progress], StepResult]:
    """A step that runs one playbook, if it has anything to do or `thorough` asks for it."""

    def run(progress: Progress) -> StepResult:
        reason = "asked for"
        if not thorough:
            progress.update("checking the hosts for drift")
            why = playbook_state.reason_to_run(context, name)
            if why is None:
                return StepResult(0, playbook_state.summary(context, name))
            reason = why
        progress.update(f"running the playbook: {reason}")
        playbook_state.invalidate(context, name)
        result = run_playbook(context, name, progress)
        playbook_state.remember(context, name)
        return StepResult(result.changed, f"{result.ok} tasks ok, {result.changed} changed; run because: {reason}")

    return run
