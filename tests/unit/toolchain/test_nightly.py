"""scripts/nightly: its arguments; and what of an aged site it calls a problem."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.module_file import load_module


def nightly(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it where nothing is installed and nothing can be."""
    command = ["/bin/bash", str(REPOSITORY / "scripts/nightly"), *arguments]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_help_installs_nothing(tmp_path: Path) -> None:
    done = nightly(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: scripts/nightly")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hours"], "--hours needs a number"),
        (["--hours", "three"], "--hours needs a number"),
        (["--hours", "-1"], "--hours needs a number"),
        (["--hours", "3", "tacc"], "unknown argument: tacc"),
        (["--long"], "unknown argument: --long"),
    ],
)
def test_wrong_arguments_start_nothing(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = nightly(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "fix:" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def light_use() -> ModuleType:
    return load_module(REPOSITORY / "tests" / "nightly" / "light_use.py")


def test_what_has_aged_is_named(light_use: ModuleType) -> None:
    def see(restarts: int, kubelets: int, killed: int) -> object:
        figures = light_use.Ageing()
        answer = f"\nNRestarts={restarts}\nId=kine.service\n\nNRestarts=0\nId=ssh.service\n\n" + "kubelet\n" * kubelets
        light_use.read_host(figures, "control-1", f"{answer}\n{killed}\n")
        return figures

    assert light_use.problems(see(1, 1, 2), see(1, 6, 2)) == []
    assert light_use.problems(see(1, 1, 2), see(3, 7, 3)) == [
        "control-1: kine.service: restarted 2 times",
        "control-1: 1 processes killed because memory ran out",
        "control-1: kubelet: 1 processes before, 7 now",
    ]
