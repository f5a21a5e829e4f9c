"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from strata.drift_model import DriftReport
from strata.report.model import CardReport, NodeReport, PlaceReport, SiteReport, State

MARKS = {State.GOOD: ("✓", "green"), State.PARTIAL: ("!", "yellow"), State.DOWN: ("✗", "red"), State.PLANNED: ("○", "")}
"""A sign for each state, which can be read without colors too."""
WORDS = {
    State.GOOD: "OK",
    State.PARTIAL: "degraded",
    State.DOWN: "down",
    State.PLANNED: "planned",
}


def frame(report: SiteReport) -> RenderableType:
    """The whole report: problems first, then nodes and accelerators."""
    return Group(*_parts(report))


def _parts(report: SiteReport) -> Iterator[RenderableType]:
    mark, colour = MARKS[report.state]
    yield Text.assemble(
        (report.site, "bold"), "  ", (f"{mark} {WORDS[report.state]}", colour), f"  {report.generated}", no_wrap=True
    )
    yield _layers(report)
    bad = [o for o in report.objects if not o.healthy] if report.state is not State.PLANNED else []
    if bad:
        table = _table("", "layer", "object", "desired", "actual")
        for status in bad:
            table.add_row(Text("✗", "red"), *map(Text, (status.layer, status.object, status.wanted, status.found)))
        yield Text(f"\n{len(bad)} of {len(report.objects)} not in the desired state", "bold")
        yield table
        yield Text("\n".join(f"{o.object}: {o.command}" for o in bad if o.command))
    if report.notes:
        yield Text("\n" + "\n".join(report.notes))
    if report.drift is not None:
        yield from drift_lines(report.drift)
    yield Text("")
    yield _places(report)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _layers(report: SiteReport) -> Table:
    table = _table("", "layer", "", "")
    table.show_header = False
    for layer in reversed(report.layers):
        mark, colour = MARKS[layer.state]
        count = str(layer.objects) if layer.state is State.PLANNED else f"{layer.healthy} of {layer.objects}"
        table.add_row(Text(mark, colour), Text(layer.layer), Text(count), Text(layer.reason or layer.what, "dim"))
    return table


def drift_lines(drift: DriftReport) -> Iterator[RenderableType]:
    """The drift, and the layers that could not be checked."""
    yield Text(f"\n{len(drift.drift)} modified outside Strata" if drift.drift else "\nno drift", "bold")
    for layer, reason in drift.unreachable.items():
        yield Text(f"{layer} could not be checked: {reason}", "yellow")
    if drift.drift:
        table = _table("layer", "object", "property", "desired", "actual")
        for item in drift.drift:
            table.add_row(*map(Text, (item.layer, item.object, item.property, item.wanted, item.found)))
        yield table


def _places(report: SiteReport) -> Table:
    table = _table("", "where", "node", "address", "cluster", "pods", "cards")
    for place in report.places:
        mark, colour = MARKS[place.state]
        free = _cards(place.free)
        if not place.nodes:
            table.add_row(Text(mark, colour), place.name, "–", "", "", "", free)
        for index, node in enumerate(place.nodes):
            table.add_row(*_node(place if index == 0 else None, node))
        if place.nodes and place.free:
            table.add_row("", "", "", "", "", "", free)
    return table


def _node(place: PlaceReport | None, node: NodeReport) -> tuple[Text, ...]:
    mark, colour = MARKS[node.state]
    return (
        Text(mark, colour),
        Text(place.name if place else ""),
        Text(node.name),
        Text(node.address or "–"),
        Text((node.cluster or "–") if node.state is not State.PLANNED else "–"),
        Text(str(node.pods) if node.pods else "–"),
        _cards(node.cards),
    )


def _cards(cards: tuple[CardReport, ...]) -> Text:
    lines: dict[str, int] = {}
    for card in cards:
        if card.pod is not None:
            holder = f"{card.pod.namespace}/{card.pod.name}"
        elif card.state is State.PLANNED:
            holder = "planned"
        elif card.state is not State.GOOD:
            holder = card.note or WORDS[card.state]
        else:
            holder = "no pod" if card.node else "free"
        text = f"{card.kind} {card.address} {holder}" if card.address else f"{card.kind} {holder}"
        lines[text] = lines.get(text, 0) + 1
    return Text("\n".join(f"{count} × {text}" if count > 1 else text for text, count in lines.items()))
