"""Alert rules of services, their runbooks and their examples.

A rule is in `rules/*.yaml` of its service's folder, its runbook is the entry "Alert <name>" of docs/troubleshooting.md,
and its example, from which `promtool test rules` is given its input, is in `tests/alerts.yaml` of the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from strata.service_modules import SERVICES
from strata.site.paths import REPOSITORY
from strata.troubleshooting import FILE, anchor

ALERT = "Alert "
"""How titles of runbooks begin."""
EXAMPLES = "tests/alerts.yaml"
"""Of a service's folder."""
RUNBOOK = "runbook"
"""The annotation with the runbook's place in the repository."""


@dataclass(frozen=True)
class Alert:
    """An alert rule.

    Args:
        name: of the alert.
        expression: in PromQL.
        folder: of its service.
    """

    name: str
    expression: str
    folder: Path

    @property
    def runbook(self) -> str:
        """Seen from the repository's root."""
        return runbook(self.name)


def runbook(name: str) -> str:
    """The runbook of an alert, seen from the repository's root."""
    return f"{FILE.relative_to(REPOSITORY)}#{anchor(ALERT + name)}"


def alerts() -> dict[str, Alert]:
    """The alerts of all services, by name."""
    return {
        rule["alert"]: Alert(rule["alert"], rule["expr"], file.parent.parent)
        for file in sorted(SERVICES.glob("*/rules/*.yaml"))
        for rule in _rules(yaml.safe_load(file.read_text()))
        if "alert" in rule
    }


def with_runbooks(rules: str) -> str:
    """The text of a file with rules, each alert of which has the annotation `runbook`."""
    content = yaml.safe_load(rules)
    for rule in _rules(content):
        if "alert" in rule:
            rule.setdefault("annotations", {})[RUNBOOK] = runbook(rule["alert"])
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=2**20))


def _rules(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in content["groups"]:
        yield from group["rules"]


class Silence(BaseModel):
    """Series with which an alert does not fire, and why not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    because: str
    series: dict[str, str]


class Example(BaseModel):
    """When an alert fires, and when not; series to values in promtool's notation, one per minute."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str
    labels: dict[str, str]
    summary: str
    common: dict[str, str] = Field(default_factory=dict)
    """Labels of all series."""
    fires: Annotated[dict[str, str], Field(min_length=1)]
    silent: Annotated[list[Silence], Field(min_length=1)]
    folder: Path
    """Of its service."""

    @property
    def series(self) -> set[str]:
        """All series, each with its labels."""
        return {self.whole(name) for name in (*self.fires, *(name for case in self.silent for name in case.series))}

    def whole(self, series: str) -> str:
        """A series with the labels of all."""
        name, _, own = series.rstrip("}").partition("{")
        labels = [*([own] if own else []), *(f'{key}="{value}"' for key, value in self.common.items())]
        return f"{name}{{{', '.join(labels)}}}"


def examples() -> dict[str, Example]:
    """The examples of all alerts, by name.

    Raises:
        pydantic.ValidationError: an example is incomplete, or has a key that is unknown.
    """
    return {
        name: Example(**example, folder=file.parent.parent)
        for file in sorted(SERVICES.glob(f"*/{EXAMPLES}"))
        # strings only: YAML would read promtool's `0x20` as a number
        for name, example in yaml.load(file.read_text(), Loader=yaml.BaseLoader).items()  # noqa: S506  # a safe one
    }
