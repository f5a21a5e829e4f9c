"""Records what a playbook put on the hosts of a site and, for its next run, which handlers did not run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

from strata.drift import baseline, handlers
from strata.site.paths import SitePaths

DOCUMENTATION = """
name: strata_manifest
type: aggregate
short_description: records managed files, units and pending handlers of a site's hosts
description:
  - Files that copy and template put there, units that systemd_service starts; see strata.drift.baseline.
  - A task whose handlers did not run in an earlier run counts as changed; see strata.drift.handlers.
"""

FILE_TASKS = ("copy", "template")
UNIT_TASKS = ("systemd_service", "systemd", "service")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """One run of ansible-playbook, which may hold several of our playbooks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "strata_manifest"

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[tuple[str, str], Path] = {}
        self._pending: handlers.PendingHandlers | None = None
        self._conditions: dict[str, Any] = {}

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Notes from here on belong to the play's playbook; of plays on no site nothing is noted."""
        os.environ.pop(baseline.RUN_VARIABLE, None)
        self._pending = None
        arguments = context.CLIARGS
        if arguments.get("check") or arguments.get("syntax"):
            return
        group = play.get_variable_manager()._inventory.groups.get("all")
        site = group.get_vars().get("strata_site") if group else None
        if site is None:
            return
        playbook = Path(play.get_path().rpartition(":")[0]).stem
        run = SitePaths(str(site)).root / "manifests" / f".run-{os.getpid()}" / playbook
        self._runs[str(site), playbook] = run
        os.environ[baseline.RUN_VARIABLE] = str(run)
        self._pending = handlers.PendingHandlers(SitePaths(str(site)), playbook)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Before Ansible forks the worker of one host, which has the task as it is now."""
        if self._pending is None or not task.notify or isinstance(task, Handler):
            return
        condition = self._conditions.setdefault(task._uuid, task.changed_when)
        name, place = task.get_name(), host.get_name()
        interrupted = self._pending.begin(place, name)
        task.changed_when = [True] if interrupted else condition
        if interrupted:
            self._display.display(f"{place}: {name} counts as changed: its handlers did not run in an earlier run")

    def v2_playbook_on_notify(self, handler: Any, host: Any) -> None:
        """Not when a task notifies it, but when the host's handlers begin."""
        if self._pending is not None:
            self._pending.notify(host.get_name(), handler._uuid)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task whose condition does not apply."""
        self._ended(result, changed=False)

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task, of which a loop's rounds are noted on their own."""
        self._ended(result, changed=result.is_changed())
        if not result.task.loop:
            self._note(result)

    def _ended(self, result: Any, *, changed: bool) -> None:
        if self._pending is None:
            return
        host, task = result.host.get_name(), result.task
        if isinstance(task, Handler):
            self._pending.handled(host, task._uuid)
        elif task.notify:
            self._pending.end(host, task.get_name(), changed=changed)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """One round of a loop."""
        self._note(result)

    def _note(self, result: Any) -> None:
        action = result.task.action.rpartition(".")[2]
        outcome = result.result
        host = result.task.delegate_to or result.host.get_name()
        if action in FILE_TASKS:
            path, checksum = outcome.get("dest") or outcome.get("path"), outcome.get("checksum")
            if path and checksum:
                keys = {key: outcome.get(key) for key in ("mode", "owner", "group")}
                baseline.note(host, files={path: baseline.ManagedFile(digest=f"sha1:{checksum}", **keys)})
        elif action == "file" and outcome.get("state") == "absent" and outcome.get("path"):
            baseline.note(host, removed=[outcome["path"]])
        elif action in UNIT_TASKS and outcome.get("name"):
            active = {"started": True, "stopped": False}.get(str(outcome.get("state")))
            unit = baseline.ManagedUnit(active=active, enabled=outcome.get("enabled"))
            baseline.note(host, units={outcome["name"]: unit})

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The run is over: hosts without a failure get their new manifest."""
        failed = set(stats.failures) | set(stats.dark)
        arguments = context.CLIARGS
        tags = tuple(arguments.get("tags") or ("all",))
        partial = tags != ("all",) or bool(arguments.get("skip_tags") or arguments.get("start_at_task"))
        for (site, playbook), run in self._runs.items():
            baseline.finish(SitePaths(site), playbook, run, failed, partial=partial)
            if not failed and not partial:
                handlers.finish(SitePaths(site), playbook, stats.processed)
            if run.parent.is_dir() and not any(run.parent.iterdir()):
                run.parent.rmdir()
