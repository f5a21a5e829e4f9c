"""When the Ansible module openstack_service starts a unit."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.module_file import load_module


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """The module of the role openstack_common."""
    return load_module(REPOSITORY / "lab" / "ansible" / "plugins" / "modules" / "openstack_service.py")


def state(active: str = "inactive", job: str = "", condition: str = "no", since: str = "0") -> dict[str, str]:
    """What `systemctl show` states; without a job systemd 252 prints an empty value."""
    return {
        "ActiveState": active,
        "Job": job,
        "ConditionResult": condition,
        "ConditionTimestampMonotonic": since,
    }


@pytest.mark.parametrize("job", ["", "0"])
def test_a_fresh_unit_is_started(module: ModuleType, job: str) -> None:
    assert module.must_start(state(job=job), False)


@pytest.mark.parametrize("active", ["active", "activating", "reloading"])
def test_what_runs_is_left(module: ModuleType, active: str) -> None:
    assert not module.must_start(state(active), True)


def test_what_waits_in_the_queue_is_left(module: ModuleType) -> None:
    assert not module.must_start(state(job="3276"), True)


def test_failed_unit_is_started_again(module: ModuleType) -> None:
    assert module.must_start(state("failed", condition="yes", since="5"), False)


def test_skipped_oneshot_is_done_until_its_files_change(module: ModuleType) -> None:
    skipped = state(condition="no", since="5867101076")
    assert not module.must_start(skipped, False)
    assert module.must_start(skipped, True)


class Runner:
    """An Ansible module that notes what it is asked to run."""

    def __init__(self, check_mode: bool) -> None:
        self.check_mode = check_mode
        self.ran: list[list[str]] = []

    def run_command(self, command: list[str], **_: Any) -> tuple[int, str, str]:
        """Runs nothing."""
        self.ran.append(command)
        return 0, "", ""


@pytest.mark.parametrize("check_mode", [False, True])
def test_units_of_earlier_releases_go(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check_mode: bool
) -> None:
    monkeypatch.setattr(module, "UNIT_DIRECTORY", tmp_path)
    for name in ("old.service", "kept.service"):
        (tmp_path / name).touch()
    runner = Runner(check_mode)
    assert module.remove(runner, ["old.service", "never.service"]) == ["old.service"]
    assert runner.ran == ([] if check_mode else [["systemctl", "disable", "--quiet", "--now", "old.service"]])
    assert (tmp_path / "old.service").exists() is check_mode
    assert (tmp_path / "kept.service").exists()
