"""Containers that ended without podman's knowledge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata_lab import container_recovery

CONTROLLER, INSTANCE, STOPPED = "c" * 64, "i" * 64, "s" * 64


class Podman:
    """podman's answers, and what it was asked to do."""

    def __init__(self) -> None:
        self.cleaned: list[str] = []
        self.removed: list[str] = []

    def __call__(self, *arguments: str) -> str:
        assert arguments[:2] in {("container", "cleanup"), ("rm", "--force")}, arguments
        (self.removed if arguments[0] == "rm" else self.cleaned).append(arguments[-1])
        return ""


def stat(pid: int, state: str = "S", flags: int = 0x400100) -> str:
    """As proc(5) has it, with a command that looks like its own end."""
    return f"{pid} ((sd) Z 4) {state} 1 {pid} {pid} 0 -1 {flags} 3158 0 0 0 1 3"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes 11, of the controller, and 12, of another program; an address for each container."""
    for name in ("EXITS", "LEASES", "PROC"):
        monkeypatch.setattr(container_recovery, name, tmp_path / name.lower())
    for pid, group in ((11, CONTROLLER), (12, "somebody-else")):
        directory = tmp_path / "proc" / str(pid)
        directory.mkdir(parents=True)
        (directory / "cgroup").write_text(f"1:name=systemd:/libpod_parent/libpod-{group}\n")
        (directory / "stat").write_text(stat(pid))
    leases = tmp_path / "leases" / "strata-here-control"
    leases.mkdir(parents=True)
    for address, holder in (("10.0.0.10", CONTROLLER), ("10.0.0.11", INSTANCE), ("fd00::12", STOPPED)):
        (leases / address).write_bytes(f"{holder}\r\neth0".encode())
    (leases / "last_reserved_ip.0").write_text("10.0.0.11")
    (leases / "lock").write_text("")
    return tmp_path


def settled(monkeypatch: pytest.MonkeyPatch, **statuses: tuple[str, str, int]) -> tuple[list[str], Podman]:
    podman = Podman()
    containers: list[dict[str, Any]] = [
        {"Id": key[0] * 64, "Names": [name], "State": status, "Pid": pid}
        for key, (name, status, pid) in statuses.items()
    ]
    halves = [c["Names"][0] for c in containers if c["State"] == "removing"]
    monkeypatch.setattr(container_recovery, "podman", podman)
    monkeypatch.setattr(container_recovery, "list_containers", lambda *_: containers)
    monkeypatch.setattr(container_recovery, "partially_created", lambda _site: halves)
    monkeypatch.setattr(container_recovery, "site_networks", lambda _site: ["strata-here-control"])
    return container_recovery.reconcile("here"), podman


def test_those_without_a_process_are_reported_to_podman(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, podman = settled(
        monkeypatch,
        controller=("strata-here-controller", "running", 11),
        instance=("strata-here-1", "running", 12),  # the number is another program's by now
        stopped=("strata-here-2", "exited", 0),
    )
    assert dead == podman.cleaned == ["strata-here-1"]
    assert {file.name: file.read_text() for file in (machine / "exits").iterdir()} == {INSTANCE: "137"}


def test_addresses_stay_while_the_controller_may_start_instances(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch, controller=("strata-here-controller", "running", 11))
    assert len(list((machine / "leases" / "strata-here-control").iterdir())) == 5


def test_addresses_of_the_dead_are_freed_after_a_reboot(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, podman = settled(
        monkeypatch,
        controller=("strata-here-controller", "stopping", 99),
        instance=("strata-here-1", "exited", 0),
    )
    assert dead == podman.cleaned == ["strata-here-controller"]
    left = {file.name for file in (machine / "leases" / "strata-here-control").iterdir()}
    assert left == {"last_reserved_ip.0", "lock"}


def test_site_without_containers_has_nothing_to_reconcile(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, podman = settled(monkeypatch)
    assert dead == podman.cleaned == podman.removed == []


def test_half_removed_containers_are_removed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed, podman = settled(
        monkeypatch,
        controller=("strata-here-controller", "removing", 0),
        instance=("strata-here-1", "exited", 0),
    )
    assert removed == podman.removed == ["strata-here-controller"]
    assert podman.cleaned == []


def test_nova_finishes_what_it_is_removing_itself(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed, podman = settled(
        monkeypatch,
        controller=("strata-here-controller", "running", 11),
        instance=("strata-here-1", "removing", 0),
    )
    assert removed == podman.removed == []


def test_networks_that_are_gone_leave_no_directory(machine: Path) -> None:
    for name in ("strata-here-12ab34cd", "strata-here-too-control", "strata-here-too-12ab34cd"):
        (machine / "leases" / name).mkdir()
    container_recovery.forget_networks("here")
    left = {directory.name for directory in (machine / "leases").iterdir()}
    assert left == {"strata-here-too-control", "strata-here-too-12ab34cd"}


def test_the_ending_are_waited_for(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = machine / "proc" / "11"
    (process / "stat").write_text(stat(11, "S", 0x40010C))  # killed, its children are not gone yet

    def pause(_seconds: float) -> None:
        (process / "stat").write_text(stat(11, "Z", 0x40010C))

    monkeypatch.setattr("time.sleep", pause)
    dead, _ = settled(monkeypatch, controller=("strata-here-controller", "running", 11))
    assert dead == ["strata-here-controller"]


def test_what_does_not_end_is_reported_as_alive(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "proc" / "11" / "stat").write_text(stat(11, "D", 0x40010C))
    monkeypatch.setattr(container_recovery, "ENDING_SECONDS", 0.0)
    assert settled(monkeypatch, controller=("strata-here-controller", "running", 11))[0] == []
