"""Ends processes of a running site by SIGKILL and waits until what they served answers again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from strata.access.podman import podman
from strata.site.context import SiteContext
from strata_bench.waiting import eventually
from strata_lab.controller import container_name

from .commands import strata_json, up


def up_again(context: SiteContext) -> dict[str, Any]:
    """What `strata up` states; it must succeed and leave nothing over."""
    answer = up(context.site_file)
    assert nothing_left_over(context)
    return answer


def nothing_left_over(context: SiteContext) -> bool:
    """Whether `strata doctor` finds nothing orphaned; fails with what it found."""
    _, answer, error = strata_json(context, "doctor")
    assert answer, error
    assert answer["leftovers_unknown"] is None
    assert answer["leftovers"] == []
    return True


def in_controller(context: SiteContext, *command: str) -> str:
    """Output of a command inside the controller."""
    return podman("exec", container_name(context.site), *command).strip()


def main_process(show: Callable[..., str], unit: str) -> int:
    """Process id of a unit, as seen where `show` runs systemctl; 0 where it does not run."""
    return int(show("systemctl", "show", "--property", "MainPID", "--value", unit).strip() or 0)


def kill(run: Callable[..., str], unit: str) -> int:
    """Kills a unit's main process; returns the process id that it had.

    Args:
        run: runs a command on the unit's machine and returns its output.
        unit: name of the unit.
    """
    process = main_process(run, unit)
    assert process, f"{unit} does not run"
    run("kill", "-9", str(process))
    return process


def wait_for_restart(run: Callable[..., str], unit: str, before: int, seconds: float = 180) -> None:
    """Returns when systemd has another main process than `before` and calls the unit active."""

    def back() -> bool:
        now = main_process(run, unit)
        return now not in (0, before) and run("systemctl", "is-active", unit).strip() == "active"

    eventually(back, seconds, f"{unit} is active again")


def killed_and_restarted(run: Callable[..., str], unit: str, seconds: float = 180) -> float:
    """Kills a unit's main process and returns when systemd has another one and calls it active.

    Args:
        run: runs a command on the unit's machine and returns its output.
        unit: name of the unit.
        seconds: how long it may take.

    Returns:
        when it was killed, in seconds since the epoch.
    """
    before = kill(run, unit)
    killed = time.time()
    wait_for_restart(run, unit, before, seconds)
    return killed
