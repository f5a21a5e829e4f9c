"""Runs a pinned tool on a site: its environment, its time limit and what went wrong, for kubectl, helm and others."""

from __future__ import annotations

import subprocess

from strata.access.environment import site_environment
from strata.site.context import SiteContext

ANSWER_SECONDS = 20.0
"""How long the API server may take."""


class Unanswered(Exception):
    """The cluster is not up, or refused; the text says why."""


def run_tool(
    context: SiteContext, *command: str, text: str | None = None, seconds: float = ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs a command, whatever its exit status.

    Args:
        context: the site.
        command: with its arguments.
        text: for its standard input.
        seconds: how long it may take.

    Raises:
        Unanswered: there is no cluster yet, no such command, or no answer in time.
    """
    from strata.toolchain import tools_environment

    if not context.paths.kubeconfig.exists():
        raise Unanswered("not up")
    try:
        return subprocess.run(
            command,
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=tools_environment() | site_environment(context),
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"unreachable: no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise Unanswered(f"unreachable: {command[0]}: {error.strerror}") from None


def answer(context: SiteContext, *command: str, text: str | None = None, seconds: float = ANSWER_SECONDS) -> str:
    """What a command prints. Arguments and errors as of `run_tool`; also raises where the command fails."""
    done = run_tool(context, *command, text=text, seconds=seconds)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"{command[0]} ended with status {done.returncode}"]
        raise Unanswered(f"unreachable: {reason[0][:200]}")
    return done.stdout
