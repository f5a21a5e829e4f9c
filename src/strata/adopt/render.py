"""An adoption as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from strata.adopt.adoption import Adoption, Row

COUNTED = frozenset({"security-group-rule"})
"""Kinds of which only those that differ have a line of their own."""


def render(adoption: Adoption, console: Console) -> None:
    """Prints what would be adopted, what of it the next `up` would change, what is ambiguous and what is missing."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("kind", "name", "id", "next `strata up`"):
        table.add_column(column, overflow="fold")
    for row in adoption.rows:
        kind, _, name = row.key.partition("/")
        if row.differs or kind not in COUNTED:
            table.add_row(kind, name, row.id, _next(row))
    if table.rows:
        console.print(table, highlight=False, markup=False)
    for kind in sorted(COUNTED):
        same = [row for row in adoption.rows if row.key.startswith(f"{kind}/") and not row.differs]
        if same:
            _line(console, f"and {len(same)} objects of the kind {kind}, unchanged")
    for key, ids in adoption.ambiguous.items():
        _line(console, f"ambiguous: {key}: {', '.join(ids)}")
    if adoption.missing:
        _line(console, f"missing, created by the next `strata up`: {_short(adoption.missing)}")
    for disruption in adoption.disrupted:
        _line(console, f"! {disruption.text()}")
    for note in adoption.notes:
        _line(console, f"! {note}")


def _next(row: Row) -> str:
    if not row.differs and not row.replaced:
        return "unchanged"
    return f"{'REPLACES it' if row.replaced else 'changes it'} ({', '.join(row.differs)})"


def _short(keys: Sequence[str], most: int = 12) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return f"{', '.join(keys[:most])}{more}"


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
