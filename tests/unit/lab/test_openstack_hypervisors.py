"""When the wait for nova's hypervisors ends early: a unit that systemd gave up, not one that waits to start again."""

from __future__ import annotations

from types import ModuleType

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.module_file import load_module


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """The module of the role openstack_compute."""
    return load_module(
        REPOSITORY / "lab" / "ansible" / "roles" / "openstack_compute" / "library" / "openstack_hypervisors.py"
    )


class Systemd:
    """An Ansible module whose systemctl knows these units, as `(state, job)` by name."""

    def __init__(self, **units: tuple[str, str]) -> None:
        self.units = {f"{name}.service": state for name, state in units.items()}

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        """`systemctl show` as systemd 252 prints it, and a journal."""
        if command[0] == "journalctl":
            return 0, "the last lines\n", ""
        asked = [word for word in command if word.endswith(".service")]
        blocks = [f"Id={u}\nActiveState={self.units[u][0]}\nJob={self.units[u][1]}\n" for u in asked]
        return 0, "\n".join(blocks), ""


def test_a_unit_that_was_given_up_is_reported(module: ModuleType) -> None:
    systemd = Systemd(keystone=("active", ""), nova=("failed", ""))
    said = module.failed_unit(systemd, ["keystone.service", "nova.service"])
    assert said == "nova.service failed: the last lines"


def test_one_that_ended_badly_in_a_restart_gets_its_turn(module: ModuleType) -> None:
    """nova-conductor is ended by its own alarm while it restarts, then waits for keystone, which restarts too."""
    systemd = Systemd(keystone=("deactivating", "812"), conductor=("failed", "815"))
    assert module.failed_unit(systemd, ["keystone.service", "conductor.service"]) is None
    assert module.failed_unit(systemd, []) is None
