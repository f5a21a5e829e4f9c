"""Child processes of the toolchain: logged, counted, and ended when the run is."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from strata.processes import bind_to_parent

_GRACE_SECONDS = 5


class Cancelled(Exception):
    """The run was interrupted; the work that raises this has been ended."""


class Processes:
    """Runs commands that can be ended together.

    They stay in this process's group, so that Ctrl-C reaches them too, and die with it whatever kills it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def check(self) -> None:
        """Raises Cancelled after cancel()."""
        if self._cancelled:
            raise Cancelled

    def run(self, command: Sequence[str | Path], *, log: Path, cwd: Path, environment: Mapping[str, str]) -> int:
        """Runs a command with its output in `log`; returns its exit status."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            with self._lock:
                self.check()
                process = subprocess.Popen(
                    # the compilers that a killed `go build` leaves end by themselves within seconds
                    bind_to_parent(command),
                    cwd=cwd,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                self._running.add(process)
            try:
                status = process.wait()
            finally:
                with self._lock:
                    self._running.discard(process)
        self.check()
        return status

    def cancel(self) -> None:
        """Ends everything that runs; later run() calls are refused."""
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
