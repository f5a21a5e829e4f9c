"""The entry points: what they say and read before anything is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata.toolchain.versions import load_versions

BASH = shutil.which("bash", path="/usr/bin:/bin") or "bash"


def bare(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with nothing but the system's own directories on PATH and an empty home."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_of_lab_installs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = bare(tmp_path, BASH, str(REPOSITORY / "scripts/lab"), *arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: scripts/lab COMMAND")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_help_of_test_installs_nothing(tmp_path: Path) -> None:
    done = bare(tmp_path, BASH, str(REPOSITORY / "scripts/test"), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--subject"], ["--subject", "--fast"], ["--since"]])
def test_an_option_of_test_without_its_value_installs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = bare(tmp_path, BASH, str(REPOSITORY / "scripts/test"), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{arguments[0]} needs a value" in done.stderr
    assert "fix: scripts/test --help" in done.stderr
    assert list(tmp_path.iterdir()) == []


def bootstrap(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    return bare(tmp_path, BASH, "-c", f"set -euo pipefail; source '{REPOSITORY}/scripts/bootstrap.sh'; {script}")


def test_versions_are_read_from_versions_yaml(tmp_path: Path) -> None:
    for package, version in load_versions().packages.items():
        assert bootstrap(tmp_path, f"pinned {package}").stdout.strip() == version


def test_a_failed_command_is_explained_with_its_log(tmp_path: Path) -> None:
    done = bootstrap(tmp_path, "logged probe 'the probe' ls /nonexistent-file")
    log = tmp_path / ".cache/strata/logs/bootstrap-probe.log"
    assert done.returncode == 1
    assert f"✗ the probe: `ls /nonexistent-file` ended with status 2 (log: {log})" in done.stderr
    assert "fix:" in done.stderr
    assert "/nonexistent-file" in log.read_text()
    assert done.stdout == ""


def test_missing_packages_without_root_are_reported(tmp_path: Path) -> None:
    done = bootstrap(tmp_path, "id() { echo 1000; }; install_packages bash no-such-package")
    assert done.returncode == 1
    assert "Debian packages are missing: no-such-package" in done.stderr


def test_packages_that_are_there_are_left_alone(tmp_path: Path) -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("no Debian system: there is no dpkg to ask")
    done = bootstrap(tmp_path, "install_packages bash coreutils")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root needs setpriv to be a user")
def test_up_as_a_plain_user_is_refused_before_anything() -> None:
    user = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    # A copy that the user may read: the checkout and pytest's directories may be root's alone.
    with tempfile.TemporaryDirectory() as copy:
        root = Path(copy)
        root.chmod(0o755)
        for name in ("scripts/bootstrap.sh", "scripts/lab", "lab/src/strata_lab/preflight.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
        done = bare(root, *user, BASH, str(root / "scripts/lab"), "up")
    assert done.returncode == 1
    assert "the user is not root" in done.stderr
    assert "Nothing has been installed or changed." in done.stderr
