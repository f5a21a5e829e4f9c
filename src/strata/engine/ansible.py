"""Runs a playbook of ours on a site and reads its events."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strata.access.ssh import add_known_hosts
from strata.engine.diagnosis import diagnose
from strata.errors import UserError
from strata.processes import start_followed
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.timeline import Timeline

TASK_STARTS = ("v2_playbook_on_task_start", "v2_playbook_on_handler_task_start", "v2_runner_on_start")
"""Events of a task that begins."""

SSH_PREFACE = re.compile(r"Task failed: |EOF on stream; last \d+ lines received:\s*")
"""What Ansible and mitogen print before ssh's message."""


@dataclass
class PlaybookResult:
    """Counts over all hosts."""

    changed: int = 0
    ok: int = 0
    changed_tasks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed_hosts: list[str] = field(default_factory=list)


def playbook_command(context: SiteContext, playbook: str) -> list[str]:
    """The command an operator would type."""
    program = Path(sys.executable).parent / "ansible-playbook"
    return [str(program), "-i", str(context.site_file), str(context.playbooks[playbook].file)]


def playbook_environment() -> dict[str, str]:
    """Environment of ansible-playbook: our configuration, events as JSON lines."""
    environment = dict(os.environ)
    environment |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.jsonl",
        "ANSIBLE_FORCE_COLOR": "false",
        "PYTHONUNBUFFERED": "1",
    }
    if "ANSIBLE_STRATEGY" not in environment:
        # docs/decisions/0014: one interpreter per host for the whole playbook
        environment |= {
            "ANSIBLE_STRATEGY": "strata_linear",
            "ANSIBLE_STRATEGY_PLUGINS": str(REPOSITORY / "ansible" / "plugins" / "strategy"),
        }
    return environment


def run_playbook(
    context: SiteContext, playbook: str, progress: Progress, *, extra_variables: Mapping[str, object] | None = None
) -> PlaybookResult:
    """Runs a playbook of the site.

    Args:
        context: the site.
        playbook: its name, one of `context.playbooks`.
        progress: shows the current task.
        extra_variables: not for secrets, they would be in argv.

    Raises:
        UserError: a task failed or a host could not be reached; names host, task and message.
    """
    command = playbook_command(context, playbook)
    if extra_variables:
        command += ["--extra-vars", json.dumps(dict(extra_variables))]
    context.paths.create()
    add_known_hosts(context, playbook)
    log = context.paths.logs / f"{playbook}.log"
    result, status, last = follow_ansible(command, playbook_environment(), log, progress)
    if result.failures:
        error = UserError(
            f"playbook {playbook}: {'; '.join(result.failures[:3])}",
            fix=f"see {log}, fix it, and run the same command again",
        )
        progress.update("checking the hosts for exhausted resources")
        raise diagnose(context, error, result.failed_hosts)
    if status != 0:
        raise UserError(f"playbook {playbook} ended with status {status}: {' '.join(last)}", fix=f"see {log}")
    return result


def follow_ansible(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    log: Path,
    progress: Progress,
    *,
    directory: Path = REPOSITORY,
    show_plays: bool = False,
) -> tuple[PlaybookResult, int, list[str]]:
    """Runs a program that prints Ansible's events as JSON lines.

    Args:
        command: the program.
        environment: its whole environment; has the callback ansible.posix.jsonl.
        log: file for tasks, changes and failures; the timeline is stored beside it.
        progress: shows the current task.
        directory: in which it runs; an ansible.cfg there applies.
        show_plays: whether progress and failures name the play too.

    Returns:
        The counts, the exit status and the last lines of output.
    """
    result = PlaybookResult()
    rest: deque[str] = deque(maxlen=5)
    timeline = Timeline()
    timeline.start("starting Ansible")
    with log.open("w") as stream, start_followed(command, directory, environment) as process:
        assert process.stdout is not None
        for line in _follow(process.stdout, result, progress, timeline, show_plays=show_plays):
            stream.write(line + "\n")
            stream.flush()
            rest.append(line)
        status = process.wait()
    timeline.save(log.parent, log.stem)
    return result, status, list(rest)


def _follow(
    lines: Iterable[str], result: PlaybookResult, progress: Progress, timeline: Timeline, *, show_plays: bool = False
) -> Iterable[str]:
    """Reads events; yields lines for the log."""
    current = task = play = ""
    for line in lines:
        if not line.startswith("{"):
            yield line.rstrip()
            continue
        try:
            event = json.loads(line)
        except ValueError:
            yield line.rstrip()
            continue
        kind = event.get("_event", "")
        if kind == "v2_playbook_on_play_start":
            play = f"{event['play']['name']}: " if show_plays else ""
        elif kind in TASK_STARTS:
            # a strategy that is not ansible's own reports the start on each host, not of the task
            if event["task"]["id"] == current:
                continue
            current, task = event["task"]["id"], event["task"]["name"]
            timeline.next(task)
            progress.update(play + task)
            yield f"{time.strftime('%H:%M:%S')} TASK {task}"
        elif kind.startswith("v2_runner_"):
            yield from _host_results(kind, play + task, event.get("hosts", {}), result)
        elif kind == "v2_playbook_on_stats":
            for stats in event.get("stats", {}).values():
                result.changed += int(stats.get("changed", 0))
                result.ok += int(stats.get("ok", 0))


def _host_results(
    kind: str, task: str, hosts: Mapping[str, Mapping[str, Any]], result: PlaybookResult
) -> Iterable[str]:
    for host, outcome in hosts.items():
        if kind in ("v2_runner_on_failed", "v2_runner_on_unreachable") and not outcome.get("ignore_errors"):
            message = _message(outcome)
            if kind == "v2_runner_on_unreachable":
                message = f"unreachable: {SSH_PREFACE.sub('', message)}"
            result.failures.append(f"{host}: {task}: {message}")
            result.failed_hosts.append(host)
            yield f"  FAILED {host}: {message}"
        elif outcome.get("changed"):
            result.changed_tasks.append(f"{host}: {task}")
            yield f"  changed {host}"


def _message(outcome: Mapping[str, Any]) -> str:
    """The message of a failed task; a hidden result (no_log) has none."""
    # of a loop, the messages of the rounds: the task itself only reports that there were some
    rounds = [
        i for i in outcome.get("results", []) if isinstance(i, dict) and (i.get("failed") or i.get("unreachable"))
    ]
    parts = [_message(r) for r in rounds] or [
        str(outcome[k]).strip() for k in ("msg", "stderr", "stdout") if outcome.get(k)
    ]
    return " | ".join(p[-800:] for p in parts[:3]) or str(outcome.get("censored", "no message"))
