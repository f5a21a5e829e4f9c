"""One run at a time on a site, also when one was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.engine.run_lock import holder, machine_lock, site_lock
from strata.errors import UserError
from strata.processes import MARK, bind_to_parent, end_orphans, tagged, unmarked_environment
from strata.site.outputs import remove_partial, write_private
from strata.site.paths import SitePaths
from strata_bench.waiting import eventually

HOLD = """
import subprocess, sys
from strata.engine.run_lock import site_lock
from strata.site.paths import SitePaths
with site_lock(SitePaths("here"), "up", None):
    child = subprocess.Popen(["sleep", "100"], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    """A site's state in a directory of its own."""
    return SitePaths("here")


@pytest.fixture
def run(paths: SitePaths) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the site's lock, and the number of its child."""
    assert not paths.root.exists()
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    yield process, child
    process.kill()
    process.wait()
    if lives(child):
        os.kill(child, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_second_run_is_shown_the_first_one(paths: SitePaths, run: tuple[subprocess.Popen[str], int]) -> None:
    process, child = run
    with pytest.raises(UserError) as caught, site_lock(paths, "destroy", None):
        pytest.fail("two runs at once")
    assert f"`strata up here` (process {process.pid}, since {time.strftime('%Y-')}" in caught.value.message
    assert caught.value.fix
    assert caught.value.see == "another-run-is-at-work"  # not the shared state, whose message is alike
    assert f"process {process.pid}" in str(holder(paths))
    assert lives(child), "a run that was refused must leave the other's processes alone"


def test_what_a_killed_run_left_is_ended(
    paths: SitePaths, run: tuple[subprocess.Popen[str], int], capfd: pytest.CaptureFixture[str]
) -> None:
    process, child = run
    process.kill()
    process.wait()
    assert lives(child)
    assert holder(paths) is None
    with site_lock(paths, "up", None):
        eventually(lambda: not lives(child), 60, "the child has ended")
    assert "1 processes (sleep)" in capfd.readouterr().err
    assert json.loads((paths.root / "lock").read_text() or "null") is None


def test_process_that_ignores_the_signal_is_killed(paths: SitePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.processes.GRACE_SECONDS", 0.2)
    with tagged(paths):
        line = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(100)"
        process = subprocess.Popen([sys.executable, "-c", line], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert end_orphans(paths) == [Path(sys.executable).name]
    assert process.wait(5) == -signal.SIGKILL


def test_others_are_left_alone(paths: SitePaths) -> None:
    with tagged(SitePaths("other")):
        other = subprocess.Popen(["sleep", "100"])
    with tagged(paths):
        staying = subprocess.Popen(["sleep", "100"], env=unmarked_environment())
        container = subprocess.Popen(["conmon", "100"], executable="/bin/sleep")
        own = end_orphans(paths)
    try:
        assert own == []
        assert all(p.poll() is None for p in (other, staying, container))
    finally:
        for process in (other, staying, container):
            process.kill()
            process.wait()
    assert MARK not in os.environ


def test_bound_command_ends_with_its_parent() -> None:
    line = "import subprocess, sys; from strata.processes import bind_to_parent\n"
    line += "child = subprocess.Popen(bind_to_parent(['sleep', '100']), stdout=subprocess.DEVNULL)\n"
    line += "print(child.pid, flush=True); sys.stdin.read()"
    parent = subprocess.Popen([sys.executable, "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    eventually(
        lambda: Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep"), 60, "sleep runs"
    )  # past the exec of setpriv
    parent.kill()
    parent.wait()
    eventually(lambda: not lives(child), 60, "the child has ended")
    assert bind_to_parent(["true"])[-1] == "true"


def test_machine_lock_waits(paths: SitePaths) -> None:
    order: list[str] = []

    def second() -> None:
        with machine_lock("test"):
            order.append("second")

    with machine_lock("test"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert paths.root.parent.is_dir()


def test_incomplete_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "outputs" / "cloud.json"
    write_private(kept, "whole")

    def killed(_self: Path, _target: Path) -> Path:
        raise SystemExit  # simulates a kill: nothing after it happens

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            write_private(kept, "half")
    assert kept.read_text() == "whole"
    assert remove_partial(tmp_path) == 1
    assert [file.name for file in kept.parent.iterdir()] == ["cloud.json"]
