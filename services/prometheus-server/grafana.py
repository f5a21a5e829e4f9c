"""Dashboards: `dashboards/*.json` in the folders of services, as Grafana imports them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from strata.service_modules import SERVICES


def dashboards(folder: Path = SERVICES) -> list[Path]:
    """Every dashboard, by path."""
    return sorted(folder.glob("*/dashboards/*.json"))


def expressions(dashboard: Path, *, full: bool = False) -> Iterator[str]:
    """The queries of its panels, with every variable at All.

    Args:
        dashboard: its file.
        full: only those that return data on an idle site too. Others have a text in `noValue`, which Grafana shows
            instead of a graph, what the site does not have then.
    """
    board = json.loads(dashboard.read_text())
    variables = {
        variable["name"]: variable["allValue"]
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
    }
    for panel in board["panels"]:
        if full and panel["fieldConfig"]["defaults"].get("noValue"):
            continue
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(f"${name}", value)
            yield expression
