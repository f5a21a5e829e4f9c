"""The real difference between a site file and what runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from strata.engine.context import SiteContext
from strata.engine.steps import Layer
from strata.errors import UserError


def show_difference(context: SiteContext, console: Console, layers: Sequence[Layer]) -> None:
    """Asks Pulumi for a preview of the cloud and platform programs; an unreachable layer is told, not raised."""
    from strata.engine import pulumi

    console.print("\n[bold]difference to what runs[/]")
    programs = {Layer.CLOUD: context.site.cloud, Layer.PLATFORM: context.site.cluster}
    for layer, wanted in programs.items():
        if wanted is None or layer not in layers:
            continue
        try:
            with console.status(f"asking {layer}") as status:
                result = pulumi.preview(
                    "cloud" if layer is Layer.CLOUD else "platform", context.site, context.paths, status
                )
        except UserError as error:
            console.print(f"{layer}: cannot be reached: {error.message.splitlines()[0]}", markup=False)
            continue
        counts = f"{result.created} to create, {result.updated} to change, {result.deleted} to delete"
        console.print(f"{layer}: {counts}, {result.same} unchanged", highlight=False)
