"""`strata plan`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, LayerOption, SiteArgument, layers
from strata.cli.context import load_context
from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.output import print_json
from strata.engine.changes.difference import show_changes, show_difference
from strata.plan import plan as make_plan
from strata.plan import render
from strata.platform.releases import check_values


def plan(
    site: SiteArgument,
    layer: LayerOption = None,
    as_json: JsonOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not compare with the deployed site.")] = False,
) -> None:
    """Show planned resources of each layer; compare them with the site if it is deployed."""
    context = load_context(site)
    check_values(context.site, context.site_file)
    made = make_plan(context.site)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    render(made, Console(), [str(chosen) for chosen in layers(layer)])

    lifecycle = lifecycle_of(context)
    show_changes(context, lifecycle, Console(), layers(layer))
    if offline or not context.provider.can_compare():
        return
    show_difference(context, lifecycle, Console(), layers(layer))
