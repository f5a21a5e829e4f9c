"""`strata doctor`: this machine and the pinned tools."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, is_dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


def run_doctor(site: str | None, *, as_json: bool) -> bool:
    """Prints the report; returns whether nothing is in the way of `up`.

    Args:
        site: when given, the checks that this site needs (a lab needs more of the machine than a remote cloud).
        as_json: for programs.
    """
    from strata.lab.preflight import machine_problems
    from strata.models import find_site, load_site
    from strata.toolchain import report

    lab = True
    if site is not None:
        loaded = load_site(find_site(site))
        lab = loaded.cloud is not None and loaded.cloud.deployment == "lab"
    problems = machine_problems(lab=lab)
    tools = report()
    if as_json:
        json.dump(
            {"problems": [_plain(p) for p in problems], "tools": [_plain(t) for t in tools]},
            sys.stdout,
            indent=1,
            default=str,
        )
        print()
        return not problems
    console = Console()
    table = Table("tool", "version", "source", "path", title="pinned tools", title_justify="left")
    for tool in tools:
        table.add_row(tool.name, tool.version, tool.source or "not there yet", str(tool.path or ""))
    console.print(table)
    for problem in problems:
        console.print(f"[red]✗[/] {problem.message}\n    fix: {problem.fix}", highlight=False)
    if not problems:
        console.print("[green]✓[/] this machine has what it takes", highlight=False)
    return not problems


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else vars(value)
