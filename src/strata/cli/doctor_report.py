"""`strata doctor`: the deployment host, the pinned tools, and orphaned resources of a site's interrupted runs."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from rich.console import Console
from rich.table import Table

from strata.access.kubectl import Unanswered
from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.output import print_json
from strata.drift_model import OrphanedResource
from strata.engine.orphans import find_orphans
from strata.engine.run_lock import holder, refresh
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.site.paths import INSTALLED, cache_directory
from strata.site_file.inventories import find_site
from strata.toolchain import cache_sizes, charts, report

GIB = 2**30
DEFAULT_SITE = "metal" if INSTALLED else "lab"
"""The one that needs least of this machine, where there is no lab."""


def run_doctor(site: str | None, *, as_json: bool) -> bool:
    """Prints the report; returns whether nothing is in the way of `up`.

    Args:
        site: whose needs are checked (a lab needs more of the machine than a remote cloud); None for DEFAULT_SITE.
        as_json: for programs.
    """
    leftovers: list[OrphanedResource] = []
    unanswered = None
    context = SiteContext.load(find_site(site or DEFAULT_SITE))
    if site is not None:
        leftovers, unanswered = _leftovers(context)
    problems = context.provider.problems()
    tools = report()
    sizes = cache_sizes()
    if as_json:
        print_json(
            {
                "problems": [_plain(p) for p in problems],
                "tools": [_plain(t) for t in tools],
                "charts": [_plain(c) for c in charts.report()],
                "cache": sizes,
                "leftovers": [_plain(leftover) for leftover in leftovers],
                "leftovers_unknown": unanswered,
            }
        )
        return not problems and not leftovers
    console = Console()
    table = Table("tool", "version", "source", "path", title="pinned tools", title_justify="left")
    for tool in tools:
        table.add_row(tool.name, tool.version, tool.source or "not there yet", str(tool.path or ""))
    for chart in charts.report():
        place = f"{chart.path or ''} ({chart.note})" if chart.note else str(chart.path)
        table.add_row(f"chart {chart.name}", chart.version, chart.source or "not there yet", place)
    console.print(table)
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in sizes.items() if size >= GIB / 100)
    total = _gib(sum(sizes.values()))
    console.print(
        f"cache {cache_directory()}: {total}{f' ({parts})' if parts else ''}", highlight=False, soft_wrap=True
    )
    for problem in problems:
        console.print(f"[red]✗[/] {problem.message}\n    fix: {problem.fix}", highlight=False)
    if not problems:
        console.print("[green]✓[/] this host meets the requirements", highlight=False)
    for leftover in leftovers:
        console.print(
            f"[red]✗[/] orphaned: {leftover.object}: {leftover.why}\n    fix: {leftover.fix}", highlight=False
        )
    if unanswered:
        console.print(f"– orphaned resources are unknown: {unanswered}", markup=False, highlight=False)
    elif site is not None and not leftovers:
        console.print(f"[green]✓[/] no orphaned resources of site {site}", highlight=False)
    return not problems and not leftovers


def _leftovers(context: SiteContext) -> tuple[list[OrphanedResource], str | None]:
    """Returns the orphaned resources, or why they are unknown."""
    if who := holder(context.paths):
        return [], f"{who} is running"
    try:
        refresh(context.paths, context.site.state)
        return find_orphans(context, lifecycle_of(context)), None
    except (SDKException, ClientException, Unanswered, UserError, OSError) as error:
        return [], (str(error) or type(error).__name__).splitlines()[0]


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else vars(value)
