"""`strata accounting`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.output import print_json
from strata.errors import UserError
from strata.report.page import write_page
from strata_services.accounting.commands.answers import ask, incomplete_before
from strata_services.accounting.commands.cloud import collect_instances
from strata_services.accounting.commands.connection import connect
from strata_services.accounting.commands.page import render_page
from strata_services.accounting.commands.tables import print_answers, write_csv
from strata_services.accounting.service import SERVICE

YEAR = timedelta(days=365)


def accounting(
    site: SiteArgument,
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="Start, UTC.", show_default="a year ago"),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--to", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="End, UTC.", show_default="now"),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant.")] = None,
    as_json: JsonOption = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIRECTORY", help="Write one CSV file per table.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page with charts.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Record the cloud's instances first.")] = False,
) -> None:
    """Show how a site's resources were allocated and used, and by whom."""
    context = load_context(site)
    settings = SERVICE.of(context.site)
    if settings is None:
        raise UserError(
            f"site {context.site.name}: platform.services.{SERVICE.key} is not set",
            fix=f"`{SERVICE.key}: {{}}` below platform.services, then `strata up {context.site.name}`",
        )
    known = [known.name for known in context.site.platform.tenants]
    if tenant is not None and tenant not in known:
        names = ", ".join(known) or "none"
        raise UserError(f"--tenant {tenant}: site {context.site.name} has no such tenant", fix=f"its tenants: {names}")
    until = end.replace(tzinfo=UTC) if end else datetime.now(UTC).replace(microsecond=0)
    since = start.replace(tzinfo=UTC) if start else until - YEAR
    if since >= until:
        raise UserError(
            f"--from {since:%Y-%m-%dT%H:%M} is not before --to {until:%Y-%m-%dT%H:%M}", fix="an earlier --from"
        )
    with connect(context) as connection:
        if collect:
            count = collect_instances(context, connection)
            Console(stderr=True).print(f"recorded {count} instances of the cloud", highlight=False)
        if (before := incomplete_before(connection, since)) is not None:
            text = f"records before {before:%Y-%m-%d} were removed (platform.services.{SERVICE.key}.retention)"
            Console(stderr=True).print(f"{text}: answers about earlier times are incomplete", highlight=False)
        answers = ask(connection, context.site.name, since, until, tenant, settings.service_units)
    if as_json:
        print_json(answers.model_dump(mode="json"))
    if csv is not None:
        Console(stderr=True).print(f"wrote {write_csv(answers, csv)} files to {csv.absolute()}", highlight=False)
    if html is not None:
        Console(stderr=True).print(f"wrote {write_page(html, render_page(answers))}", highlight=False)
    if not as_json and csv is None and html is None:
        print_answers(answers, Console())
