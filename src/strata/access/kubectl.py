"""kubectl on a site's cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from strata.access.commands import ANSWER_SECONDS, Unanswered, answer, run_tool
from strata.site.context import SiteContext

__all__ = ["Unanswered", "ask_program", "kubectl", "kubectl_json", "run_kubectl"]


def run_kubectl(
    context: SiteContext, *arguments: str, text: str | None = None, seconds: float = ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs kubectl, whatever its exit status. Errors as of `run_tool`."""
    return run_tool(context, "kubectl", *arguments, text=text, seconds=seconds)


def kubectl(context: SiteContext, *arguments: str, text: str | None = None, seconds: float = ANSWER_SECONDS) -> str:
    """What kubectl prints. Errors as of `answer`."""
    return answer(context, "kubectl", *arguments, text=text, seconds=seconds)


def kubectl_json(
    context: SiteContext, *arguments: str, text: str | None = None, seconds: float = ANSWER_SECONDS
) -> Any:
    """What `kubectl … --output json` returns; each request may take ANSWER_SECONDS at most. Errors as of `answer`."""
    limit = f"--request-timeout={min(seconds, ANSWER_SECONDS):.0f}s"
    printed = kubectl(context, *arguments, "--output", "json", limit, text=text, seconds=seconds)
    return json.loads(printed) if printed.strip() else None


def ask_program(
    context: SiteContext, *target: str, command: Sequence[str], request: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """What a program in a pod answers: it reads one JSON object and prints one.

    Args:
        context: the site.
        target: the pod, as arguments of `kubectl exec`.
        command: of the program.
        request: what it reads.
        seconds: how long it may take.

    Raises:
        Unanswered: no answer in time, or none in JSON.
    """
    done = run_kubectl(context, "exec", "--stdin", *target, "--", *command, text=json.dumps(request), seconds=seconds)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise Unanswered(done.stderr.strip()[-500:] or "no answer") from None
