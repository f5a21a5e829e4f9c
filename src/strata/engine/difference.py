"""The real difference between a site file and what runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from strata.engine.context import SiteContext
from strata.engine.steps import Layer
from strata.errors import UserError


def show_difference(context: SiteContext, console: Console, layers: Sequence[Layer]) -> None:
    """Asks Pulumi for a preview of the cloud and platform programs; an unreachable layer is told, not raised."""
    from strata.engine.pulumi import Program, preview

    console.print("\n[bold]difference to what runs[/]")
    programs: list[tuple[Layer, Program, bool]] = [
        (Layer.CLOUD, "cloud", context.site.cloud is not None),
        (Layer.PLATFORM, "platform", context.site.cluster is not None),
    ]
    for layer, program, wanted in programs:
        if not wanted or layer not in layers:
            continue
        try:
            with console.status(f"asking {layer}") as status:
                result = preview(program, context.site, context.paths, status, site_file=context.site_file)
        except UserError as error:
            console.print(f"{layer}: cannot be reached: {error.message.splitlines()[0]}", markup=False)
            continue
        counts = f"{result.created} to create, {result.updated} to change, {result.deleted} to delete"
        console.print(f"{layer}: {counts}, {result.same} unchanged", highlight=False)
