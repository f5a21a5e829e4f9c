"""`.ci/run` ends what it started, however it is ended itself, and names only what it left itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

LAB = """#!/bin/bash
# up lasts and has a child that outlives it; destroy is at once
[[ $1 == up ]] || exit 0
bash -c 'echo $$ >"$0/child"; exec sleep 600' "$PWD" | cat
"""


def repository(place: Path, lab: str) -> None:
    """A folder with `.ci/run`, a lab and tests that pass."""
    (place / ".ci").mkdir()
    (place / "scripts").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", place / ".ci" / "run")
    for name, text in {"lab": lab, "test": "#!/bin/sh\n"}.items():
        (place / "scripts" / name).write_text(text)
        (place / "scripts" / name).chmod(0o755)


QUICK_LAB = """#!/bin/bash
[[ $1 != up || -n $2 || -z $LEAVES ]] || touch "$PWD/left"
"""
PODMAN = """#!/bin/bash
[[ $* == "ps --all --filter label=strata.site "* ]] || exit 0
echo container strata-earlier
[[ ! -e left ]] || echo container strata-mine
"""


@pytest.mark.parametrize("leaves", ["", "yes"], ids=["clean", "leaves"])
def test_only_its_own_leftovers_fail_a_run(tmp_path: Path, leaves: str) -> None:
    """What an interrupted run left on the machine is named, but fails no later run."""
    repository(tmp_path, QUICK_LAB)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"podman": PODMAN, "pgrep": "#!/bin/sh\n", "nft": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "run"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "LEAVES": leaves},
        check=False,
        timeout=60,
    )
    assert "! an earlier run left behind:\ncontainer strata-earlier\n── up" in done.stdout, done.stdout
    assert ("✗ this run left behind:\ncontainer strata-mine\n" in done.stdout) == bool(leaves)
    assert done.returncode == (1 if leaves else 0), done.stdout


def test_the_tests_that_need_no_lab_run_when_it_is_gone(tmp_path: Path) -> None:
    repository(tmp_path, "#!/bin/sh\necho lab $* >>calls\n")
    (tmp_path / "scripts" / "test").write_text('#!/bin/sh\necho test $1 $2 >>calls\necho "= summary of $2 ="\n')
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
    order = ["lab up", "test --part lab", "lab up --expect-unchanged", "lab destroy --yes", "test --part rest"]
    assert (tmp_path / "calls").read_text().splitlines() == [*order, "lab destroy --yes"]
    assert done.stdout.splitlines()[-1] == "= summary of rest ="


def test_a_terminated_run_leaves_no_process(tmp_path: Path) -> None:
    repository(tmp_path, LAB)
    with subprocess.Popen(
        [tmp_path / ".ci" / "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        child = tmp_path / "child"
        while not (child.exists() and child.read_text().strip()):
            assert run.poll() is None
            time.sleep(0.05)
        pid = int(child.read_text())
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=180)
    assert run.returncode != 0
    assert "destroy: status 0" in said
    state = Path(f"/proc/{pid}/stat")
    alive = state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive, said
