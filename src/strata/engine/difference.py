"""The real difference between a site file and what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from strata.engine.disruption import disturbances, file_changes, warnings
from strata.engine.pulumi_events import label, urn_name
from strata.errors import UserError
from strata.layers import Layer
from strata.site.context import SiteContext


def show_changes(context: SiteContext, console: Console, layers: Sequence[Layer]) -> None:
    """What was edited since the last success, and what of it `up` refuses or drains; from the site's state alone."""
    changes, warned = file_changes(context), warnings(context, layers)
    if changes or warned:
        console.print("\n[bold]changed in the site file since it was last brought up[/]")
    for change in changes:
        console.print(f"{change.path}: {change.before} → {change.now}", markup=False, highlight=False, soft_wrap=True)
    for warning in warned:
        console.print(f"! {warning}", markup=False, highlight=False, soft_wrap=True)


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
        for line in step_lines(result.planned):
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        for one in disturbances(context, result.planned) if program == "cloud" else ():
            console.print(f"  ! {one.text()}", markup=False, highlight=False, soft_wrap=True)
            console.print(
                f"    `up` asks first; without a terminal: --replace {one.instance}", markup=False, soft_wrap=True
            )
    for refused in context.provider.refused_changes(context) if Layer.CLOUD in layers else ():
        console.print(f"! {refused}; `up` refuses that", markup=False, highlight=False, soft_wrap=True)


def step_lines(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line per resource that is created, changed, replaced or deleted."""
    verbs = {"create": "create", "delete": "delete", "update": "change", "replace": "replace", "import": "take over"}
    found = []
    for step in steps:
        if verb := verbs.get(step["op"]):
            properties = ", ".join(dict.fromkeys(str(p) for p in step.get("diffs") or ())) if verb != "create" else ""
            name = f"{label(step['type'])} {urn_name(step['urn'])}"
            found.append(f"{verb} {name}{f' ({properties})' if properties else ''}")
    return list(dict.fromkeys(found))
