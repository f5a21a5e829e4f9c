"""kubectl and helm on a site's cluster, with the pinned tools."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from strata.site.context import SiteContext

ANSWER_SECONDS = 20.0
"""How long the API server may take."""


class Unanswered(Exception):
    """The cluster is not up, or refused; the text says why."""


def cluster_command(context: SiteContext, *command: str, text: str | None = None) -> str:
    """Runs a command such as `kubectl` or `helm` on the site's cluster.

    Args:
        context: the site.
        command: with its arguments.
        text: for its standard input.

    Raises:
        Unanswered: there is no cluster yet, or the command failed.
    """
    from strata.access.environment import site_environment
    from strata.toolchain import tools_environment

    if not context.paths.kubeconfig.exists():
        raise Unanswered("not up")
    try:
        done = subprocess.run(
            command,
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=tools_environment() | site_environment(context),
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Unanswered(f"unreachable: {error}") from None
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"{command[0]} ended with status {done.returncode}"]
        raise Unanswered(f"unreachable: {reason[0][:200]}")
    return done.stdout


def kubectl_json(context: SiteContext, *arguments: str, text: str | None = None) -> Any:
    """What `kubectl … --output json` answers. Raises as `cluster_command`."""
    answer = cluster_command(
        context, "kubectl", *arguments, "--output", "json", f"--request-timeout={ANSWER_SECONDS:.0f}s", text=text
    )
    return json.loads(answer) if answer.strip() else None
