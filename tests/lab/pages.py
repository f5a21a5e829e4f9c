"""What a report's page has, as a browser shows it."""

from __future__ import annotations

from strata_bench.browser import Browser

WIDTH = 1280
"""In CSS pixels; at this width a table is not yet stacked."""

ROWS = """
const rows = [];
const begin = document.getElementById(arguments[0]);
for (let part = begin.nextElementSibling; part && part.tagName !== 'H2'; part = part.nextElementSibling)
  for (const row of part.querySelectorAll('tbody tr'))
    if (row.checkVisibility()) rows.push([...row.cells].map(cell => cell.innerText.trim()));
return rows;
"""

TEXT = """
const texts = [];
const begin = document.getElementById(arguments[0]);
for (let part = begin.nextElementSibling; part && part.tagName !== 'H2'; part = part.nextElementSibling)
  texts.push(part.innerText);
return texts.join('\\n');
"""

PLACES = """
const places = [...document.querySelectorAll('[data-place]')];
const nodes = place => [...place.querySelectorAll('[data-node]')].map(node => node.dataset.node);
return Object.fromEntries(places.map(place => [place.dataset.place, nodes(place)]));
"""


def rows(window: Browser, section: str) -> list[tuple[str, ...]]:
    """Cells of the visible rows of all tables in a section of the page that is open.

    Args:
        window: the browser.
        section: the id of its heading.
    """
    table: list[list[str]] = window.run(ROWS, section)
    return [tuple(row) for row in table]


def text(window: Browser, section: str) -> str:
    """The visible text of a section of the page that is open."""
    return str(window.run(TEXT, section))


def places(window: Browser) -> dict[str, str]:
    """Node to the place that it is in, on the page that is open."""
    by_place: dict[str, list[str]] = window.run(PLACES)
    return {node: place for place, nodes in by_place.items() for node in nodes}


def header(window: Browser) -> str:
    """The visible text above the first section."""
    return str(window.run("return document.querySelector('header').innerText"))
