"""The real difference between a site file and what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from strata.drift.program_state import is_skipped
from strata.engine.changes.disruption import disruptions, file_changes, warnings
from strata.engine.kubernetes_version import upgraded_nodes
from strata.errors import UserError
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.site.context import SiteContext
from strata.stacks.events import label, urn_name
from strata.stacks.pulumi import Program, preview

_NO_CHANGE = "no change"


def show_changes(context: SiteContext, lifecycle: CloudLifecycle, console: Console, layers: Sequence[Layer]) -> None:
    """What was edited since the last success, an upgrade of Kubernetes, and what of it `up` refuses or drains.

    Read from the site's state alone.

    Args:
        context: the site.
        lifecycle: of its cloud.
        console: to print on.
        layers: those to compare.
    """
    changes, warned = file_changes(context), warnings(context, lifecycle, layers)
    if Layer.CLUSTER in layers:
        try:
            warned += [upgrade.text() for upgrade in upgraded_nodes(context)]
        except UserError as error:
            warned.append(f"{error.message}; `up` refuses that")
    if changes or warned:
        console.print("\n[bold]changed in the site file since it was last brought up[/]")
    for change in changes:
        console.print(f"{change.path}: {change.before} → {change.now}", markup=False, highlight=False, soft_wrap=True)
    for warning in warned:
        console.print(f"! {warning}", markup=False, highlight=False, soft_wrap=True)


def show_difference(context: SiteContext, lifecycle: CloudLifecycle, console: Console, layers: Sequence[Layer]) -> None:
    """Asks Pulumi for a preview of the cloud and platform programs, but of those that `up` would skip; an unreachable
    layer is reported, not raised.

    A site that was never up is compared too where its cloud is an existing one; only its state directory changes.

    Args:
        context: the site.
        lifecycle: of its cloud.
        console: to print on.
        layers: those to compare.
    """
    console.print("\n[bold]difference to what runs[/]")
    programs: list[tuple[Layer, Program, bool]] = [
        (Layer.CLOUD, "cloud", context.site.cloud is not None),
        (Layer.PLATFORM, "platform", context.site.cluster is not None),
    ]
    for layer, program, declared in programs:
        if not declared or layer not in layers or not lifecycle.is_comparable(layer):
            continue
        try:
            with console.status(f"asking {layer}") as status:
                if layer is Layer.CLOUD:
                    lifecycle.prepare_comparison(status)
                if is_skipped(context, program, status):
                    console.print(f"{layer}: {_NO_CHANGE}", highlight=False)
                    continue
                result = preview(program, context.site, context.paths, status, site_file=context.site_file)
        except UserError as error:
            console.print(f"{layer}: cannot be compared: {error.message}", markup=False, soft_wrap=True)
            console.print(f"  fix: {error.fix}", markup=False, soft_wrap=True)
            continue
        counts = f"{result.created} to create, {result.updated} to change, {result.deleted} to delete"
        summary = f"{counts}, {result.same} unchanged" if result.changed else _NO_CHANGE
        console.print(f"{layer}: {summary}", highlight=False)
        for line in step_lines(result.planned):
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        for disruption in disruptions(context, result.planned) if program == "cloud" else ():
            console.print(f"  ! {disruption.text()}", markup=False, highlight=False, soft_wrap=True)
            console.print(
                f"    `up` asks first; without a terminal: --replace {disruption.instance}",
                markup=False,
                soft_wrap=True,
            )
    for refused in lifecycle.refused_changes() if Layer.CLOUD in layers else ():
        console.print(f"! {refused}; `up` refuses that", markup=False, highlight=False, soft_wrap=True)


def step_lines(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line per resource that is created, changed, replaced or deleted."""
    verbs = {"create": "create", "delete": "delete", "update": "change", "replace": "replace", "import": "import"}
    lines = []
    for step in steps:
        if verb := verbs.get(step["op"]):
            properties = ", ".join(dict.fromkeys(str(p) for p in step.get("diffs") or ())) if verb != "create" else ""
            name = f"{label(step['type'])} {urn_name(step['urn'])}"
            lines.append(f"{verb} {name}{f' ({properties})' if properties else ''}")
    return list(dict.fromkeys(lines))
