"""What the host was changed in is undone, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.errors import UserError
from strata_lab import host

CGROUPS = "#subsys_name hierarchy num_cgroups enabled\nhugetlb 0 1 1\nperf_event 0 1 1\nnet_cls 0 1 0\nmemory 4 1 1\n"


class Machine:
    """A host with cgroup v1 whose mounts are remembered here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts: set[str] = set()
        self.refused = ""
        self.busy = False
        self.modprobe = ""
        (root / "cgroup").mkdir()
        (root / "cgroups").write_text(CGROUPS)
        (root / "ip_forward").write_text("0\n")
        (root / "bridge-nf-call-iptables").write_text("0\n")

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        directory = command[-1]
        if command[0] == "modprobe":
            return subprocess.CompletedProcess(command, 1 if self.modprobe else 0, "", self.modprobe)
        if command[0] == "mount":
            if self.refused:
                return subprocess.CompletedProcess(command, 32, "", self.refused)
            self.mounts.add(directory)
        elif self.busy:
            return subprocess.CompletedProcess(command, 32, "", "target is busy")
        else:
            self.mounts.discard(directory)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def machine(state_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """The fake host."""
    made = Machine(tmp_path)
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host, "KNOWN_CONTROLLERS", tmp_path / "cgroups")
    monkeypatch.setattr(host, "FORWARDING", tmp_path / "ip_forward")
    monkeypatch.setattr(host, "BRIDGE_FILTER", tmp_path / "bridge-nf-call-iptables")
    monkeypatch.setattr(subprocess, "run", made.run)
    monkeypatch.setattr(Path, "is_mount", lambda path: str(path) in made.mounts)
    return made


def test_missing_controllers_are_mounted_once(machine: Machine) -> None:
    assert host.prepare("lab")
    assert {Path(m).name for m in machine.mounts} == {"hugetlb", "perf_event"}
    assert (machine.root / "ip_forward").read_text() == "1"
    assert not host.prepare("lab")


def test_the_last_site_undoes_it(machine: Machine) -> None:
    host.prepare("one")
    host.prepare("two")
    host.restore("one")
    assert machine.mounts
    assert host.restore("two") == []
    assert machine.mounts == set()
    for setting in ("ip_forward", "bridge-nf-call-iptables"):
        assert (machine.root / setting).read_text() == "0"
    assert not (machine.root / "host.json").exists()
    assert list((machine.root / "cgroup").iterdir()) == []


def test_what_was_there_before_stays(machine: Machine) -> None:
    directory = machine.root / "cgroup" / "hugetlb"
    machine.mounts.add(str(directory))
    (machine.root / "ip_forward").write_text("1\n")
    host.prepare("lab")
    host.restore("lab")
    assert machine.mounts == {str(directory)}
    assert (machine.root / "ip_forward").read_text() == "1\n"


def test_what_others_use_is_reported_and_remembered(machine: Machine) -> None:
    host.prepare("lab")
    machine.busy = True
    assert len(host.restore("lab")) == 2
    machine.busy = False
    assert host.restore("lab") == []
    assert machine.mounts == set()


def test_refused_mount_leaves_nothing(machine: Machine) -> None:
    machine.refused = "permission denied"
    with pytest.raises(UserError, match="permission denied"):
        host.prepare("lab")
    assert list((machine.root / "cgroup").iterdir()) == []
    assert not (machine.root / "host.json").exists()


def test_missing_bridge_filter_is_loaded_or_reported(machine: Machine) -> None:
    """Without it security groups would not see the packets between instances of one network."""
    (machine.root / "bridge-nf-call-iptables").unlink()
    machine.modprobe = "modprobe: FATAL: Module br_netfilter not found"
    with pytest.raises(UserError, match="br_netfilter not found"):
        host.prepare("lab")


def test_record_of_a_newer_version_is_reported(machine: Machine) -> None:
    record = machine.root / "host.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text('{"of_tomorrow": true}')
    with pytest.raises(UserError, match="of_tomorrow: written by a newer Strata"):
        host.prepare("lab")
    assert record.read_text() == '{"of_tomorrow": true}'


def test_cgroup_v2_needs_no_mount(machine: Machine) -> None:
    (machine.root / "cgroup" / "cgroup.controllers").write_text("memory\n")
    assert host.missing_controllers() == []
