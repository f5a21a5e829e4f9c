"""The answers as tables: in the terminal, and as CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from strata.errors import UserError
from strata_services.accounting.commands.answers import Answers, Row

PLATFORM = "(platform)"
"""Holder of the platform's own pods."""
FORMULA = ("=", "+", "-", "@")
Cell = str | int | float | None


@dataclass(frozen=True)
class Answer:
    """One table of the answers.

    Args:
        title: of it.
        columns: their names; numbers are aligned to the right.
        rows: text, numbers, None where nothing is known.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def tables(answers: Answers) -> tuple[Answer, ...]:
    """The tables of the terminal and of the page, in the order of the questions."""
    return (
        _allocation(answers),
        _utilisation(answers),
        _idle(answers),
        _work(answers, "pod", "Who uses the platform to do what: pods"),
        _work(answers, "job", "Batch jobs, which ran inside pods of kind batch"),
        _batches(answers),
        _one_card(answers),
        _models(answers),
    )


def _allocation(answers: Answers) -> Answer:
    offered = [row for row in answers.allocation if row.level == "node"]
    cards = sum(row.card_hours for row in offered)
    cpus = sum(row.cpu_hours for row in offered)
    rows: list[tuple[Cell, ...]] = []
    names = {"node": "offered by the cluster's nodes", "instance": "allocated to instances", "pod": "allocated to pods"}
    for level, name in names.items():
        holders = dict.fromkeys(row.holder for row in answers.allocation if row.level == level)
        for holder in sorted(holders, key=lambda holder: (holder is None, holder)):
            own = [row for row in answers.allocation if (row.level, row.holder) == (level, holder)]
            cpu, card = sum(row.cpu_hours for row in own), sum(row.card_hours for row in own)
            memory = sum(row.memory_gib_hours for row in own)
            share = (None, None) if level == "instance" else (percent(cpu, cpus), percent(card, cards))
            rows.append((name, "" if level == "node" else holder or PLATFORM, cpu, memory, card, *share))
    columns = ("what", "holder", "CPU h", "memory GiB h", "card h", "% of CPUs", "% of cards")
    return Answer("How were the resources allocated?", columns, tuple(rows))


def _utilisation(answers: Answers) -> Answer:
    rows: list[tuple[Cell, ...]] = []
    tenants = dict.fromkeys(row.tenant for row in answers.utilisation)
    for tenant in sorted(tenants, key=lambda tenant: (tenant is None, tenant)):
        own = [row for row in answers.utilisation if row.tenant == tenant]
        cpu, memory, card = (
            sum(row.cpu_hours_measured for row in own),
            sum(row.memory_gib_hours_measured for row in own),
            sum(row.card_hours_measured for row in own),
        )
        busy = sum(row.card_hours_busy for row in own)
        rows.append(
            (
                tenant or PLATFORM,
                percent(cpu, sum(row.cpu_hours for row in own)),
                percent(sum(row.cpu_hours_used for row in own), cpu),
                percent(sum(row.memory_gib_hours_used for row in own), memory),
                percent(card, sum(row.card_hours for row in own)),
                percent(busy, card),
                card - busy,
            )
        )
    columns = ("tenant", "% measured", "% CPU used", "% memory used", "% cards measured", "% cards busy", "idle card h")
    return Answer("Are the allocated resources used or idle?", columns, tuple(rows))


def _idle(answers: Answers) -> Answer:
    rows = tuple(
        (
            row.tenant or PLATFORM,
            row.username or "",
            f"{row.namespace}/{row.name}",
            f"{row.starts:%Y-%m-%d %H:%M}",
            row.card_hours_measured,
            row.card_hours_idle,
        )
        for row in answers.idle_cards
    )
    return Answer("Pods that left cards idle", ("tenant", "user", "pod", "start", "card h", "idle card h"), rows)


def _work(answers: Answers, level: str, title: str) -> Answer:
    rows = tuple(
        (
            row.tenant or PLATFORM,
            row.username or "",
            row.kind,
            row.tasks,
            row.hours,
            row.cpu_hours,
            row.card_hours,
            row.service_units,
        )
        for row in answers.work
        if row.level == level
    )
    return Answer(title, ("tenant", "user", "kind", "tasks", "hours", "CPU h", "card h", "service units"), rows)


def _batches(answers: Answers) -> Answer:
    rows = tuple(
        (
            row.tenant,
            row.username,
            row.batch,
            row.tasks,
            row.tasks_at_once,
            row.cpus_at_once,
            row.cards_at_once,
            row.memory_gib_at_once,
            row.received_gib * 1024,
            (row.ends - row.starts).total_seconds() / 60,
        )
        for row in answers.batches
    )
    at_once = ("jobs at once", "CPUs", "cards", "memory GiB")
    columns = ("tenant", "user", "batch", "jobs", *at_once, "data MiB", "minutes")
    return Answer("Batches of jobs, by their names, and what they held at one time", columns, rows)


def _one_card(answers: Answers) -> Answer:
    rows = tuple(
        (
            row.tenant or PLATFORM,
            row.kind if row.level == "pod" else "batch job",
            row.tasks,
            row.cpus_requested,
            row.cpus_p50,
            row.cpus_p95,
            row.memory_gib_requested,
            row.memory_gib_p50,
            row.memory_gib_p95,
        )
        for row in answers.one_card_tasks
    )
    columns = (
        "tenant",
        "kind",
        "tasks",
        "CPUs requested",
        "half used ≤",
        "95 % used ≤",
        "GiB requested",
        "half used ≤ GiB",
        "95 % used ≤ GiB",
    )
    return Answer("How far could CPU and memory of a task with one card shrink?", columns, rows)


def _models(answers: Answers) -> Answer:
    rows = tuple((row.tenant, row.model, row.requests, row.tokens_in, row.tokens_out) for row in answers.models)
    return Answer("Models that were asked", ("tenant", "model", "requests", "tokens in", "tokens out"), rows)


def percent(part: float, whole: float) -> float | None:
    """Percent of the whole; None of nothing."""
    return 100 * part / whole if whole > 0 else None


def cell_text(cell: Cell) -> str:
    """As both the terminal and the page show it."""
    if cell is None:
        return "–"
    return f"{cell:,.1f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def is_number(column: int, rows: Sequence[tuple[Cell, ...]]) -> bool:
    """Whether a column holds numbers."""
    return not any(isinstance(row[column], str) for row in rows)


def notes(answers: Answers) -> list[str]:
    """Notes below the tables."""
    kwh = sum(row.kwh for row in answers.energy)
    sessions = max(answers.sessions, key=lambda row: row.most_at_once, default=None)
    return [
        *([f"Cards used {kwh:,.1f} kWh."] if answers.energy else []),
        *([f"At most {sessions.most_at_once} notebooks ran at once, in {sessions.month:%Y-%m}."] if sessions else []),
        *([] if any(row.cpu_hours_measured for row in answers.utilisation) else ["No usage is recorded in this time."]),
    ]


def print_answers(answers: Answers, console: Console) -> None:
    """Prints the tables that have rows."""
    whose = f", tenant {answers.tenant}" if answers.tenant else ""
    console.print(
        f"site {answers.site}{whose}, {answers.start:%Y-%m-%d %H:%M} to {answers.end:%Y-%m-%d %H:%M} UTC",
        highlight=False,
    )
    for answer in tables(answers):
        if not answer.rows:
            continue
        table = Table(title=answer.title, title_justify="left", title_style="bold")
        for number, column in enumerate(answer.columns):
            table.add_column(column, justify="right" if is_number(number, answer.rows) else "left")
        for row in answer.rows:
            table.add_row(*(cell_text(cell) for cell in row))
        console.print()
        console.print(table, markup=False, highlight=False)
    for note in notes(answers):
        console.print(note, highlight=False)


def write_csv(answers: Answers, directory: Path) -> int:
    """Writes each list of the answers as `<name>.csv`, with the fields of `--json` as columns.

    Returns:
        How many files.

    Raises:
        UserError: the directory cannot be written to.
    """
    lists: dict[str, tuple[type[Row], Iterable[Row]]] = {
        name: (field.annotation.__args__[0], getattr(answers, name))
        for name, field in type(answers).model_fields.items()
        if field.annotation is not None and getattr(field.annotation, "__origin__", None) is tuple
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, (kind, rows) in lists.items():
            with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(kind.model_fields))
                writer.writeheader()
                writer.writerows(_cells(row) for row in rows)
    except OSError as error:
        raise UserError(f"--csv {directory}: {error.strerror}", fix="a directory that you may write to") from None
    return len(lists)


def _cells(row: Row) -> dict[str, object]:
    """Texts as texts: a spreadsheet computes what begins like a formula, and users name their batches."""
    cells = row.model_dump(mode="json")
    return {key: f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell for key, cell in cells.items()}
