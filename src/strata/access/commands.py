"""Runs a pinned tool on a site: its environment, its time limit and what went wrong, for kubectl, helm and others."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.access.site_environment import site_environment

if TYPE_CHECKING:  # the substitute for Pulumi's Kubernetes plugin, which each run starts, loads no site model
    from strata.site.context import SiteContext

ANSWER_SECONDS = 20.0
"""How long the API server may take."""


class Unanswered(Exception):
    """The cluster is not up, or refused; the message gives the reason."""


class Running:
    """Commands that run now, in any thread."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    @contextmanager
    def including(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Counts a process as running until the block ends."""
        with self._lock:
            self._processes.add(process)
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)

    def terminate(self) -> None:
        """Sends SIGTERM to all of them."""
        with self._lock:
            for process in self._processes:
                process.terminate()


def run_command(
    command: Sequence[str],
    *,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
    running: Running | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command, whatever its exit status.

    Args:
        command: with its arguments.
        text: for its standard input.
        environment: None for this process's.
        seconds: how long it may take; None for any time.
        running: from where others may terminate it.

    Raises:
        OSError: there is no such command.
        subprocess.TimeoutExpired: it was killed at its time limit.
    """
    pipe = subprocess.PIPE
    source = subprocess.DEVNULL if text is None else pipe
    with subprocess.Popen(command, stdin=source, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            with (running or Running()).including(process):
                output, errors = process.communicate(text, timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    """Why a command failed: the last line of its standard error."""
    lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("WARNING:")]
    return lines[-1] if lines else f"{done.args[0]} ended with status {done.returncode}"


def run_tool(
    context: SiteContext, *command: str, text: str | None = None, seconds: float = ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a site's environment, whatever its exit status.

    Args:
        context: the site.
        command: with its arguments.
        text: for its standard input.
        seconds: how long it may take.

    Raises:
        Unanswered: there is no cluster yet, no such command, or no answer in time.
    """
    if not context.paths.kubeconfig.exists():
        raise Unanswered("not up")
    environment = dict(os.environ) | site_environment(context)
    try:
        return run_command(command, text=text, environment=environment, seconds=seconds)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"unreachable: no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise Unanswered(f"unreachable: {command[0]}: {error.strerror}") from None


def answer(context: SiteContext, *command: str, text: str | None = None, seconds: float = ANSWER_SECONDS) -> str:
    """What a command prints. Arguments and errors as of `run_tool`; also raises where the command fails."""
    done = run_tool(context, *command, text=text, seconds=seconds)
    if done.returncode != 0:
        raise Unanswered(f"unreachable: {failure(done)[:200]}")
    return done.stdout
