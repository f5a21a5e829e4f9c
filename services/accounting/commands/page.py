"""The answers as one page of HTML with pictures, complete in itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import jinja2

from strata_services.accounting.commands.answers import Answers
from strata_services.accounting.commands.tables import PLATFORM, cell_text, is_number, notes, tables

WIDTH, HEIGHT, LEFT, BOTTOM = 720.0, 220.0, 70.0, 20.0
COLORS = ("#2b5cb3", "#17703c", "#b3591e", "#7a3fa0", "#00798c", "#a3154f", "#6b6b00", "#586375")


@dataclass(frozen=True)
class Bar:
    """A rectangle of a chart, in its own units; y counts from the top."""

    x: float
    y: float
    width: float
    height: float
    color: str
    text: str


@dataclass(frozen=True)
class Label:
    """A text of a chart; its place is its end (axis) or its middle (months)."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Stacked bars by month.

    Args:
        title: what it shows, with the unit.
        bars: to draw.
        months: labels below.
        scale: labels on the left.
        legend: name and color of each part.
        limits: lines above the bars, such as what was offered: x from, x to, y, text.
    """

    title: str
    bars: tuple[Bar, ...]
    months: tuple[Label, ...]
    scale: tuple[Label, ...]
    legend: tuple[tuple[str, str], ...]
    limits: tuple[tuple[float, float, float, str], ...] = ()


def stacked(
    title: str, values: Mapping[date, Mapping[str, float]], limits: Mapping[date, float] | None = None
) -> Chart | None:
    """A chart of parts by month.

    Args:
        title: of it.
        values: month to part to value, none negative.
        limits: month to a line of its own.

    Returns:
        None where there is nothing to show.
    """
    limits = limits or {}
    months = sorted({*values, *limits})
    parts = sorted(
        {part for of_month in values.values() for part in of_month}, key=lambda part: (part == PLATFORM, part)
    )
    top = max([*(sum(of_month.values()) for of_month in values.values()), *limits.values()], default=0.0)
    if not months or top <= 0:
        return None
    colors = {part: COLORS[number % len(COLORS)] for number, part in enumerate(parts)}
    step = (WIDTH - LEFT) / len(months)
    plot = HEIGHT - BOTTOM
    bars, labels, lines = [], [], []
    for number, month in enumerate(months):
        x, y = LEFT + number * step, plot
        for part in parts:
            value = values.get(month, {}).get(part, 0.0)
            height = value / top * (plot - 10)
            y -= height
            if value > 0:
                text = f"{month:%Y-%m} {part}: {value:,.1f}"
                bars.append(Bar(x + step * 0.12, y, step * 0.76, height, colors[part], text))
        if month in limits:
            line = plot - limits[month] / top * (plot - 10)
            lines.append((x + step * 0.04, x + step * 0.96, line, f"{month:%Y-%m} offered: {limits[month]:,.1f}"))
        labels.append(Label(x + step / 2, HEIGHT - 5, f"{month:%Y-%m}"))
    scale = (Label(LEFT - 8, 14, f"{top:,.0f}"), Label(LEFT - 8, plot, "0"))
    return Chart(title, tuple(bars), tuple(labels), scale, tuple(colors.items()), tuple(lines))


def charts(answers: Answers) -> list[Chart]:
    """The pictures of the page, in the order of the questions."""
    offered = [row for row in answers.allocation if row.level == "node"]
    pods = [row for row in answers.allocation if row.level == "pod"]
    instances = [row for row in answers.allocation if row.level == "instance"]
    used = answers.utilisation
    candidates = [
        stacked(
            "Card hours allocated to pods by tenant; line: offered by the nodes",
            _by_month((row.month, row.holder or PLATFORM, row.card_hours) for row in pods),
            {row.month: row.card_hours for row in offered if row.card_hours > 0},
        ),
        stacked(
            "CPU hours allocated to pods by tenant; line: offered by the nodes",
            _by_month((row.month, row.holder or PLATFORM, row.cpu_hours) for row in pods),
            {row.month: row.cpu_hours for row in offered},
        ),
        stacked(
            "CPU hours of instances by project",
            _by_month((row.month, row.holder or "", row.cpu_hours) for row in instances),
        ),
        stacked(
            "Card hours busy and idle",
            _by_month(
                (row.month, name, max(0.0, hours))
                for row in used
                for name, hours in (
                    ("busy", row.card_hours_busy),
                    ("idle", row.card_hours_measured - row.card_hours_busy),
                    ("not measured", row.card_hours - row.card_hours_measured),
                )
            ),
        ),
        stacked("Energy of cards by node, kWh", _by_month((row.month, row.node, row.kwh) for row in answers.energy)),
        stacked(
            "Most notebooks at once",
            _by_month((row.month, "notebooks", float(row.most_at_once)) for row in answers.sessions),
        ),
    ]
    return [chart for chart in candidates if chart is not None]


def _by_month(values: Iterable[tuple[date, str, float]]) -> dict[date, dict[str, float]]:
    months: dict[date, dict[str, float]] = {}
    for month, part, value in values:
        of_month = months.setdefault(month, {})
        of_month[part] = of_month.get(part, 0.0) + value
    return months


def render_page(answers: Answers) -> str:
    """The page; every value is escaped, and nothing in it is loaded from anywhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"cell_text": cell_text, "is_number": is_number}
    size = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "plot": HEIGHT - BOTTOM}
    return environment.get_template("page.html.j2").render(
        answers=answers, tables=tables(answers), charts=charts(answers), notes=notes(answers), size=size
    )
