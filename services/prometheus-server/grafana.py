"""Dashboards: `dashboards/*.json` in the folders of services, as Grafana imports them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.discovery import SERVICES


def dashboards(folder: Path = SERVICES) -> list[Path]:
    """Every dashboard, by path."""
    return sorted(folder.glob("*/dashboards/*.json"))


def expressions(dashboard: Path) -> Iterator[str]:
    """The queries of its panels, with every variable at All."""
    board = json.loads(dashboard.read_text())
    variables = {one["name"]: one["allValue"] for one in board["templating"]["list"] if one["type"] == "query"}
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(f"${name}", value)
            yield expression
