"""What is reported of a machine that cannot carry the lab."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from strata.cli.lifecycle_choice import lifecycle_of
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY, cache_directory
from strata.site_file.inventories import find_site
from strata_lab import preflight

FILES = {
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "/proc/meminfo": "MemTotal:       24689048 kB\nMemFree: 1 kB\n",
    "/proc/self/status": "Name:\tpython3\nCapEff:\t000001ffffffffff\n",
    "/proc/filesystems": "nodev\tsysfs\nnodev\toverlay\n\text4\n",
    "/proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
    + "".join(f"{name}\t1\t1\t1\n" for name in ("cpu", "cpuset", "memory", "pids")),
    "/sys/fs/cgroup/cgroup.controllers": "",
}
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A good machine, whose files a test may change."""
    content = dict(FILES)
    monkeypatch.setattr(preflight, "_read", lambda path: content.get(path, ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 100 << 30))
    monkeypatch.setattr(preflight, "_probe_network", lambda _: [])
    return content


def messages() -> list[str]:
    problems = preflight.machine_problems()
    assert all(problem.fix for problem in problems)
    return [problem.message for problem in problems]


def test_a_good_machine(files: dict[str, str]) -> None:
    if not Path("/dev/kmsg").exists():
        pytest.skip("this machine has no /dev/kmsg, which the check looks at itself")
    assert messages() == []


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("/etc/os-release", "ID=ubuntu\nPRETTY_NAME=Ubuntu 24.04\n", "this is Ubuntu 24.04; the lab runs on Debian 12"),
        ("/etc/os-release", 'ID=debian\nVERSION_ID="13"\n', "the lab runs on Debian 12"),
        ("/etc/os-release", "", "a system without /etc/os-release"),
        ("/proc/meminfo", "MemTotal: 8000000 kB\n", "7.6 GiB of memory, the lab needs 12 GiB"),
        ("/proc/self/status", "CapEff:\t00000000a80425fb\n", "root has no CAP_NET_ADMIN, CAP_SYS_ADMIN here"),
        ("/proc/filesystems", "nodev\tsysfs\n", "no overlayfs"),
        ("/proc/cgroups", "#subsys_name\nmemory\t1\t1\t0\ncpu\t1\t1\t1\npids\t1\t1\t1\n", "controller cpuset, memory"),
    ],
)
def test_what_is_missing_is_named(files: dict[str, str], path: str, text: str, said: str) -> None:
    files[path] = text
    assert any(said in message for message in messages())


def test_unified_cgroups_are_enough(files: dict[str, str]) -> None:
    files["/proc/cgroups"] = ""
    files["/sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory hugetlb pids"
    assert not any("controller" in message for message in messages())


def test_a_plain_user(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert any("not root (uid 1000)" in message for message in messages())


def test_processor_architecture_network(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(preflight, "_probe_network", lambda _: ["bridge", "veth"])
    said = "\n".join(messages())
    for part in ("aarch64", "1 processor", "network devices of the kind bridge, veth"):
        assert part in said


def test_disk_of_a_first_run_a_new_lab_and_a_lab_that_is_there(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))

    def free(gib: int) -> list[str]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, gib << 30))
        return [message for message in messages() if "GiB free" in message]

    assert "24.0 GiB free" in free(24)[0]
    assert "25 GiB are needed" in free(24)[0]
    # a run that was interrupted while Kubernetes was built has used 20 of it
    (tmp_path / "cache/go/caches").mkdir(parents=True)
    assert free(5) == []
    (tmp_path / "cache/go/caches").rmdir()
    built = tmp_path / "cache/tools/kube-apiserver/1.35.4-abc/kube-apiserver"
    built.parent.mkdir(parents=True)
    built.touch()
    assert "9 GiB are needed" in free(8)[0]
    files["/var/lib/containers/storage/overlay-containers/containers.json"] = '[{"names":["strata-lab-controller"]}]'
    assert free(4) == []
    assert "3 GiB are needed" in free(2)[0]


def test_every_problem_is_reported_at_once_as_a_users_error(files: dict[str, str]) -> None:
    files["/etc/os-release"] = "ID=ubuntu\n"
    files["/proc/meminfo"] = "MemTotal: 4000000 kB\n"
    with pytest.raises(UserError, match=r"(?s)Debian 12.*GiB of memory") as error:
        lifecycle_of(SiteContext.load(find_site("lab"))).check()
    assert error.value.fix


def test_the_caches_place_is_the_one_of_strata(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variables in ({}, {"XDG_CACHE_HOME": str(tmp_path)}, {"STRATA_CACHE_DIR": str(tmp_path / "x")}):
        monkeypatch.delenv("STRATA_CACHE_DIR", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert preflight.cache_directory() == cache_directory()


def test_it_runs_without_anything_installed() -> None:
    """Isolated and without site-packages, as scripts/lab runs it; it prints or not, and changes nothing."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(REPOSITORY / "lab/src/strata_lab/preflight.py")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath, "HOME": "/nonexistent"},
    )
    assert done.returncode == (1 if done.stderr else 0)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_network_is_tried_and_left_as_it_was() -> None:
    assert preflight._probe_network(("veth", "nosuchkind")) == ["nosuchkind"]
    assert not [device.name for device in Path("/sys/class/net").iterdir() if device.name.startswith("probe")]
