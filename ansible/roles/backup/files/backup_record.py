"""When each item was last backed up: a file of the host, for `problems` and for the node exporter."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


class Record:
    """The last backup of each item, and why it failed.

    Args:
        directory: of its file.
        items: what is backed up.
        maximum_age: of a backup, in seconds.
        metrics: file that the node exporter reads.
    """

    def __init__(self, directory: Path, items: Sequence[str], maximum_age: float, metrics: Path) -> None:
        self._file, self._items = directory / "state.json", items
        self._maximum_age, self._metrics = maximum_age, metrics

    def note(self, item: str, failure: str | None) -> None:
        """Notes a backup that has ended now; None: it succeeded."""
        with self._state() as state:
            state[item] |= {"failure": failure} if failure else {"failure": None, "success": time.time()}

    def problems(self) -> list[str]:
        """A line for each item whose last backup failed or is too old."""
        with self._state() as state:
            entries = dict(state)
        lines = []
        for item in self._items:
            age = time.time() - _last_time(entries[item])
            failure = (entries[item].get("failure") or "").partition("\n")[0]
            if age > self._maximum_age:
                lines.append(f"{item}: no backup for {age / 3600:.0f} h" + (f": {failure}" if failure else ""))
            elif failure:
                lines.append(f"{item}: the last backup failed: {failure}")
        return lines

    def write_metrics(self) -> None:
        """Writes when each item was last backed up, and when the next backup is overdue."""
        with self._state() as state:
            entries = dict(state)
        values = {
            "strata_backup_last_success_timestamp_seconds": {i: entries[i].get("success", 0) for i in self._items},
            "strata_backup_due_timestamp_seconds": {i: _last_time(entries[i]) + self._maximum_age for i in self._items},
        }
        temporary = self._metrics.with_suffix(".new")  # which the exporter does not read
        with temporary.open("w") as file:
            for name, by_item in values.items():
                file.write(f"# TYPE {name} gauge\n")
                file.writelines(f'{name}{{item="{item}"}} {value:.0f}\n' for item, value in by_item.items())
            os.fchmod(file.fileno(), 0o644)
        temporary.replace(self._metrics)

    @contextlib.contextmanager
    def _state(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Item to `since`, `success` and `failure`; changes are saved."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._file.read_text() if self._file.exists() else "{}"
            state = json.loads(before)
            for item in self._items:
                state.setdefault(item, {"since": time.time()})
            yield state
            if (after := json.dumps(state)) != before:
                temporary = self._file.with_suffix(".new")
                temporary.write_text(after)
                temporary.replace(self._file)


def _last_time(state: Mapping[str, Any]) -> float:
    """Of the last backup; before the first one, of the item's first appearance."""
    return float(state.get("success", state["since"]))
