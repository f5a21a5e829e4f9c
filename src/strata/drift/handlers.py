"""Tasks that changed a host, whose handlers have not run there yet (docs/decisions/0081).

Ansible stores notifications in memory: if a run is killed or fails on a host before its handlers, they are lost, and
the next run finds the files in the desired state. An entry here is an empty file, created before the task starts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote

from strata.site.paths import SitePaths


def directory(paths: SitePaths, playbook: str) -> Path:
    """Where the entries of a playbook are: a directory per host, a file per task."""
    return paths.root / "handlers" / playbook


def load(paths: SitePaths, playbook: str) -> set[tuple[str, str]]:
    """Host and name of each task with an entry."""
    return {(file.parent.name, unquote(file.name)) for file in directory(paths, playbook).glob("*/*")}


class PendingHandlers:
    """The entries of one playbook during one of its plays.

    Which task notified which handler is not recorded: Ansible runs all notified handlers of a host together. If one
    fails, all of these tasks keep their entries.

    Args:
        paths: the site's.
        playbook: name without its ending.
    """

    def __init__(self, paths: SitePaths, playbook: str) -> None:
        self._directory = directory(paths, playbook)
        self._earlier = load(paths, playbook)
        self._changed: set[tuple[str, str]] = set()
        self._waiting: dict[str, set[str]] = {}

    def begin(self, host: str, task: str) -> bool:
        """Adds an entry before a task runs; returns whether it counts as changed, because an earlier run left one."""
        file = self._file(host, task)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        return (host, task) in self._earlier

    def end(self, host: str, task: str, *, changed: bool) -> None:
        """Removes the entry of a task that changed nothing; one that failed is not passed here, and keeps its entry."""
        if changed:
            self._changed.add((host, task))
        elif (host, task) not in self._earlier | self._changed:
            self._file(host, task).unlink(missing_ok=True)

    def notify(self, host: str, handler: str) -> None:
        """Expects a handler to run on a host; `handler` is Ansible's identifier of it."""
        self._waiting.setdefault(host, set()).add(handler)

    def handled(self, host: str, handler: str) -> None:
        """Removes the entries of a host's tasks when its last handler has run, or was skipped by its condition."""
        waiting = self._waiting.get(host, set())
        waiting.discard(handler)
        if waiting:
            return
        for _, task in {entry for entry in self._changed if entry[0] == host}:
            self._file(host, task).unlink(missing_ok=True)
            self._changed.remove((host, task))
            self._earlier.discard((host, task))

    def _file(self, host: str, task: str) -> Path:
        return self._directory / host / quote(task, safe=" :'")


def finish(paths: SitePaths, playbook: str, hosts: Iterable[str]) -> None:
    """Removes, after a run without failures, entries of tasks that no longer exist or do not apply."""
    for host in hosts:
        shutil.rmtree(directory(paths, playbook) / host, ignore_errors=True)
