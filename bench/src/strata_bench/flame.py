"""The breakdown as a picture: time goes to the right, what a part was made of is below it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from html import escape

from strata_bench.model import Span

WIDTH, ROW, GAP = 1000, 22, 2
"""Of the picture, in its own units."""
LETTER = 6.6
"""About the width of a letter."""

STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b2330}.title{font-weight:600;font-size:14px}.page{fill:#fff}"
    "@media(prefers-color-scheme:dark){.page{fill:#12161c}.title,.out{fill:#e5e9ef}}"
)


def flame(spans: Sequence[Span]) -> str:
    """An SVG with one band per span, each on its own scale; full names and times are in its tooltips.

    Args:
        spans: whole runs.
    """
    parts: list[str] = []
    y = 10.0
    for span in spans:
        parts.append(f'<text class="title" x="4" y="{y + 12:.0f}">{escape(span.name)}: {span.seconds:.1f} s</text>')
        y += ROW
        rows = _rows(span)
        scale = WIDTH / max(span.seconds, *(s.started + s.seconds for row in rows for s in row), 0.001)
        for row in rows:
            parts += [_box(s, y, scale) for s in row if s.seconds * scale >= 1]
            y += ROW + GAP
        y += ROW / 2
    height = y + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="where the time goes"><style>{STYLE}</style>'
        f'<rect class="page" width="{WIDTH}" height="{height:.0f}"/>{"".join(parts)}</svg>\n'
    )


def _rows(span: Span) -> list[list[Span]]:
    """Steps, then their parts; parallel parts have rows of their own."""
    steps = _packed(span.inner)
    inner = _packed([part for step in span.inner for part in step.inner])
    return [*steps, *inner]


def _packed(spans: Sequence[Span]) -> list[list[Span]]:
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.started, -s.seconds)):
        for row in rows:
            if row[-1].started + row[-1].seconds <= span.started + 1e-6:
                row.append(span)
                break
        else:
            rows.append([span])
    return rows


def _box(span: Span, y: float, scale: float) -> str:
    x, width = span.started * scale, span.seconds * scale
    label = f"{span.name} {span.seconds:.1f} s"
    room = int((width - 6) / LETTER)
    text = label if len(label) <= room else (span.name[: room - 1] + "…" if room > 3 else "")
    shown = f'<text x="{x + 4:.1f}" y="{y + 15:.1f}">{escape(text)}</text>' if text else ""
    return (
        f"<g><title>{escape(label)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW}" rx="2" fill="{_colour(span.name)}"/>'
        f"{shown}</g>"
    )


def _colour(name: str) -> str:
    """Always the same for one name, light enough for dark letters."""
    hue = int(hashlib.sha256(name.encode()).hexdigest()[:4], 16) % 360
    return f"hsl({hue} 60% 78%)"
