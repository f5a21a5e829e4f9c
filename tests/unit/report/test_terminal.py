"""`strata status --watch`, as a terminal and as a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from strata.observe import Observation
from strata.report import build_report
from strata.report.terminal import frame
from strata.site.context import SiteContext
from strata_bench.waiting import eventually

STRATA = str(Path(sys.executable).parent / "strata")


def test_the_frame_can_be_read_without_colours(context: SiteContext, running: Callable[..., Observation]) -> None:
    stream = io.StringIO()
    Console(file=stream, width=140, no_color=True).print(frame(build_report(context, observation=running("train-1"))))
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "✓ OK" in text
    assert "v100 0000:10:00.0 research/train-1" in text
    assert "v100 0000:18:00.0 free" in text


def test_a_pipe_gets_one_frame_per_interval(tmp_path: Path) -> None:
    done = subprocess.run(
        [STRATA, "status", "lab", "--watch", "--interval", "0.5", "--frames", "2"],
        env={**os.environ, "STRATA_STATE_DIR": str(tmp_path), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout.count("○ planned") == 2
    assert "\x1b" not in done.stdout
    assert done.returncode == 1, "nothing runs"


def test_a_pipe_that_is_closed_ends_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [STRATA, "status", "lab", "--watch", "--interval", "0.5"],
        env={**os.environ, "STRATA_STATE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=120)
    assert process.stderr.read() == ""


@pytest.mark.parametrize(("key", "no_color"), [(b"q", False), (b"\x03", False), (b"q", True)])
def test_a_terminal_is_redrawn_until_a_key(key: bytes, no_color: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "STRATA_STATE_DIR": str(tmp_path), "TERM": "xterm-256color", "COLUMNS": "120"}
    environment |= {"LINES": "40"} | ({"NO_COLOR": "1"} if no_color else {})
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [STRATA, "status", "lab", "--watch", "--interval", "0.5"],
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: _controlling(terminal),  # Ctrl-C must reach it as a signal
    )
    os.close(terminal)
    try:
        seen = _read_until(controller, b"gpu-worker-1")
        os.write(controller, key)
        seen += _drain(controller)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    assert b"\x1b[?1049h" in seen, "the picture has a screen of its own"
    assert b"\x1b[?1049l" in seen, "and the terminal is given back"
    assert b"Traceback" not in seen
    if no_color:
        assert b"\x1b[3" not in seen.replace(b"\x1b[3J", b""), "no colours"


def _controlling(terminal: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _read_until(descriptor: int, expected: bytes) -> bytes:
    seen = b""

    def arrived() -> bool:
        nonlocal seen
        if select.select([descriptor], [], [], 0)[0]:
            seen += os.read(descriptor, 65536)
        return expected in seen

    eventually(arrived, 120, f"{expected!r} in the terminal", pause=0.05)
    return seen


def _drain(descriptor: int) -> bytes:
    """What comes until the other side is closed."""
    seen, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # Linux reports it when the last process has gone
                break
            if not part:
                break
            seen += part
    return seen
