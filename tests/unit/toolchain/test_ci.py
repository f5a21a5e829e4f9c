"""`.ci/run` ends what it started, however it is ended itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from strata.site.paths import REPOSITORY

LAB = """#!/bin/bash
# up lasts and has a child that outlives it; destroy is at once
[[ $1 == up ]] || exit 0
bash -c 'echo $$ >"$0/child"; exec sleep 600' "$PWD" | cat
"""


def test_a_terminated_run_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "scripts").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "scripts" / "lab").write_text(LAB)
    (tmp_path / "scripts" / "lab").chmod(0o755)
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
