"""When each part of a step began and how long it took: tasks of a playbook, resources of a program."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from strata.site.outputs import write_private


class Part(BaseModel):
    """One part; `started` in seconds after the beginning of the whole."""

    model_config = ConfigDict(frozen=True)
    name: str
    started: float
    seconds: float


class Parts(BaseModel):
    """All parts of one run of a playbook or program; `began` in seconds since 1970."""

    model_config = ConfigDict(frozen=True)
    began: float
    seconds: float
    parts: tuple[Part, ...]


def file_of(logs: Path, name: str) -> Path:
    """Where the parts of the last run are, beside its log."""
    return logs / f"{name}.times.json"


def load(logs: Path, name: str) -> Parts | None:
    """The parts of the last run of `hosts`, `pulumi-cloud` and the like; None before the first."""
    file = file_of(logs, name)
    return Parts.model_validate_json(file.read_text()) if file.exists() else None


class Timeline:
    """Notes beginnings and ends as they are seen."""

    def __init__(self) -> None:
        self._began = time.time()
        self._zero = time.monotonic()
        self._open: dict[str, float] = {}
        self._parts: list[Part] = []

    def start(self, name: str) -> None:
        """A part begins; one of this name that is under way goes on."""
        self._open.setdefault(name, time.monotonic())

    def end(self, name: str) -> None:
        """A part ends; nothing where it never began."""
        if (begin := self._open.pop(name, None)) is not None:
            seconds = time.monotonic() - begin
            self._parts.append(Part(name=name, started=round(begin - self._zero, 3), seconds=round(seconds, 3)))

    def next(self, name: str) -> None:
        """A part begins where all others end."""
        for under_way in list(self._open):
            self.end(under_way)
        self.start(name)

    def save(self, logs: Path, name: str) -> None:
        """Ends what is under way, and writes the parts in the place of the last run's."""
        for under_way in list(self._open):
            self.end(under_way)
        seconds = time.monotonic() - self._zero
        record = Parts(began=self._began, seconds=round(seconds, 3), parts=tuple(self._parts))
        write_private(file_of(logs, name), record.model_dump_json())
