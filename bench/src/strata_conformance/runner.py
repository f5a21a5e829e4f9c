"""Runs specs: several processes of the test binary, each with a few specs at a time."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from strata.errors import UserError
from strata.processes import bind_to_parent
from strata.progress import Progress
from strata.retry import attempts
from strata_conformance.results import FAILED, ResultFile, read_report, setup_failure

BATCH = 6
"""Specs of one process: so many results are lost where it is killed."""
BATCH_MINUTES = 60
SETUP_PAUSES = (20.0,)
"""Seconds between attempts at the setup before the first spec."""
TICK_SECONDS = 15.0
GRACE_SECONDS = 120.0
"""How long a test may take to remove what it made when the run is interrupted."""


class Runner:
    """Runs specs and keeps their results.

    Args:
        command: the test binary with the arguments that all runs share.
        environment: of the tests.
        results: takes the results.
        logs: directory for the output of processes with failures.
        progress: receives status messages.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        results: ResultFile,
        logs: Path,
        progress: Progress,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._results = results
        self._logs = logs
        self._progress = progress
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, specs: Sequence[str], processes: int, later: int = 0) -> None:
        """Runs specs.

        Args:
            specs: their names.
            processes: how many run at once.
            later: number of specs that another call will run; counted in the time left.

        Raises:
            UserError: the test binary ended before its first spec, as without a cluster.
        """
        batches = [specs[start : start + BATCH] for start in range(0, len(specs), BATCH)]
        begin, done = time.monotonic(), 0
        pool = ThreadPoolExecutor(processes)
        sizes: dict[Future[None], int] = {pool.submit(self._batch, batch): len(batch) for batch in batches}
        try:
            while sizes:
                self._report(len(specs), done, later, time.monotonic() - begin)
                for future in wait(sizes, TICK_SECONDS, FIRST_COMPLETED).done:
                    done += sizes.pop(future)
                    future.result()
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _report(self, total: int, done: int, later: int, seconds: float) -> None:
        failed = sum(result.state == FAILED for result in self._results.results.values())
        left = f", about {seconds / done * (total - done + later) / 60:.0f} min left" if done else ""
        alone = f", {later} more follow one at a time" if later else ""
        self._progress.update(f"{done} of {total} specs done{alone}, {failed} failed{left}")

    def _batch(self, specs: Sequence[str]) -> None:
        """Runs specs in one process; in a second one if the first ended in its setup, as while a node restarts."""
        number = next(self._numbers)
        log, report = self._logs / f"{number:03}.log", self._logs / f"{number:03}.json"
        command = [
            *self._command,
            f"--ginkgo.focus={focus(specs)}",
            f"--ginkgo.timeout={BATCH_MINUTES}m",
            f"--ginkgo.json-report={report}",
        ]
        for last in attempts(SETUP_PAUSES):
            status = self._process(command, log)
            if self._stopped:
                return
            results, failure = read_report(report, specs), setup_failure(report)
            report.unlink(missing_ok=True)
            if results:
                break
            if last:
                reason = failure or (log.read_text(errors="replace").strip().splitlines() or [f"status {status}"])[-1]
                raise UserError(
                    f"the tests ended before their first spec: {reason[:300]}; log: {log}", fix=f"see {log}"
                )
        with self._lock:
            self._results.add(results)
        if not any(result.state == FAILED for result in results):
            log.unlink()

    def _process(self, command: Sequence[str], log: Path) -> int | None:
        """Runs the test binary; returns its exit status, None where the run has been stopped."""
        with log.open("wb") as output:
            process = self._start(command, output.fileno())
            if process is None:
                return None
            try:
                status = process.wait(BATCH_MINUTES * 60 + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            with self._lock:
                self._running.discard(process)
        return status

    def _start(self, command: Sequence[str], output: int) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                bind_to_parent(command),
                env=self._environment,
                cwd=self._logs,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it once, from _stop: at a second one ginkgo cleans up nothing
            )
            self._running.add(process)
            return process

    def _stop(self) -> None:
        """Ends the processes, which remove what their specs made."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        self._progress.update(f"interrupted: waiting for {len(running)} tests to remove their objects")
        for process in running:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        for process in running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def focus(specs: Sequence[str]) -> str:
    """Regular expression, of Go and of Python, that matches these specs' names and no others."""
    return f"^(?:Kubernetes e2e suite )?(?:{'|'.join(re.escape(spec) for spec in specs)})$"
