"""Reads the engine events that `pulumi … --json` writes, one JSON object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strata.progress import Progress
from strata.timeline import Timeline

_COLOUR = re.compile(r"<\{%[^%]*%\}>")
_OURS = ("strata:", "pulumi:")
"""Types of components, stacks and providers: they have no counterpart outside the state."""
_VERBS = {
    "create": "creating",
    "create-replacement": "re-creating",
    "update": "changing",
    "delete": "deleting",
    "delete-replaced": "deleting",
    "refresh": "looking at",
    "read": "reading",
}


@dataclass(frozen=True)
class Failure:
    """The engine's message about a resource that failed.

    Args:
        urn: the resource; empty for a message about the whole program.
        message: the provider's words.
    """

    urn: str
    message: str

    @property
    def type(self) -> str:
        """The resource's type token."""
        return urn_type(self.urn)

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return urn_name(self.urn)

    def __str__(self) -> str:
        return f"{label(self.type)} {self.name}: {self.message}" if self.urn else self.message


@dataclass
class Events:
    """Sums up a run's events as they come.

    Args:
        progress: receives status messages.
    """

    progress: Progress
    created: int = 0
    updated: int = 0
    deleted: int = 0
    same: int = 0
    failures: list[Failure] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    planned: list[Mapping[str, Any]] = field(default_factory=list)
    """Metadata of the steps that a preview would take."""
    refreshed: list[Mapping[str, Any]] = field(default_factory=list)
    """Metadata of the steps of a refresh that found something else than the state has."""
    timeline: Timeline = field(default_factory=Timeline)
    """When each resource was worked on."""
    _counted: set[tuple[str, str]] = field(default_factory=set)
    _refreshing: set[str] = field(default_factory=set)

    def read(self, line: str) -> None:
        """Takes one line of pulumi's output."""
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.other.append(line.rstrip())
            return
        if step := event.get("resourcePreEvent"):
            self._starts(step["metadata"])
            if step.get("planning"):
                self._plan(step["metadata"])
                self._count(step["metadata"])
        elif step := event.get("resOutputsEvent"):
            self._count(step["metadata"])
            self._refresh_ends(step["metadata"])
            self.timeline.end(_part(step["metadata"]))
        elif diagnostic := event.get("diagnosticEvent"):
            self._diagnostic(diagnostic)

    def _starts(self, step: Mapping[str, Any]) -> None:
        if step["op"] == "refresh":
            self._refreshing.add(step["urn"])
        verb = _VERBS.get(step["op"])
        if verb and not step["type"].startswith(_OURS):
            self.progress.update(f"{verb} {label(step['type'])} {urn_name(step['urn'])}")
            self.timeline.start(_part(step))

    def _refresh_ends(self, step: Mapping[str, Any]) -> None:
        """The engine calls a refresh "same" if only outputs differ that the program does not set."""
        if step["urn"] not in self._refreshing:
            return
        self._refreshing.remove(step["urn"])
        before, now = ((step.get(which) or {}).get("outputs") for which in ("old", "new"))
        if step["op"] not in ("same", "refresh") or before != now:
            self.refreshed.append(step)

    def _plan(self, step: Mapping[str, Any]) -> None:
        if step["op"] not in ("same", "refresh", "read") and not step["type"].startswith(_OURS):
            self.planned.append(step)

    def _count(self, step: Mapping[str, Any]) -> None:
        operation, urn = step["op"], step["urn"]
        if step["type"].startswith(_OURS) or (operation, urn) in self._counted:
            return
        self._counted.add((operation, urn))
        if operation in ("create", "create-replacement", "import"):
            self.created += 1
        elif operation == "update":
            self.updated += 1
        elif operation in ("delete", "delete-replaced"):
            self.deleted += 1
        elif operation == "same":
            self.same += 1

    def _diagnostic(self, diagnostic: Mapping[str, Any]) -> None:
        text = _COLOUR.sub("", diagnostic.get("message", "")).strip()
        if not text or diagnostic.get("severity") != "error":
            return
        urn = diagnostic.get("urn", "")
        if urn_type(urn) == "pulumi:pulumi:Stack":
            urn = ""
        if text in ("update failed", "preview failed", "destroy failed", "refresh failed"):
            return
        if "Traceback (most recent call last):" in text:
            text = _last_exception(text)
        self.failures.append(Failure(urn, text))


def _part(step: Mapping[str, Any]) -> str:
    """A step's name in the timeline; a refresh ends as another operation than it began."""
    return f"{label(step['type'])} {urn_name(step['urn'])}"


def _last_exception(text: str) -> str:
    """The exception's message, without the frames, which are indented."""
    lines = text.splitlines()
    last_frame = max((number for number, line in enumerate(lines) if line.startswith("    ")), default=-1)
    return "\n".join(lines[last_frame + 1 :]).strip() or text


def urn_type(urn: str) -> str:
    """The type of `urn:pulumi:stack::project::parent$type::name`."""
    parts = urn.split("::", 3)
    return parts[2].rsplit("$", 1)[-1] if len(parts) == 4 else ""


def urn_name(urn: str) -> str:
    """The name of a resource."""
    parts = urn.split("::", 3)
    return parts[3] if len(parts) == 4 else urn


def label(type_token: str) -> str:
    """What an operator calls a type: "openstack:compute/instance:Instance" is an instance."""
    words = re.sub(r"V\d+$", "", type_token.rsplit(":", 1)[-1])
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).lower()
