"""The report as one self-contained HTML page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from strata.errors import UserError
from strata.report.model import CardReport, PlaceReport, SiteReport
from strata.site.outputs import write_private

TEMPLATES = Path(__file__).parent / "templates"


def _share(part: float, whole: float) -> float:
    """Percent of the whole, between 0 and 100."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 2) if whole > 0 else 0.0


def _place_cards(place: PlaceReport) -> list[CardReport]:
    return [*(card for node in place.nodes for card in node.cards), *place.free]


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"share": _share, "place_cards": _place_cards}
    return environment.get_template("report.html.j2")


def render_page(report: SiteReport) -> str:
    """The page; every value is escaped, and nothing in it is loaded from anywhere."""
    style = Markup((TEMPLATES / "report.css").read_text())  # noqa: S704  # our own file, no value of a site in it
    return _template().render(report=report, style=style) + "\n"


def write_page(file: Path, page: str) -> Path:
    """Writes the page as a whole or not at all, readable by its owner only: it names addresses.

    Returns:
        Its absolute path.

    Raises:
        UserError: the file cannot be written.
    """
    target = file.expanduser().absolute()
    if target.is_dir():
        raise UserError(f"{file} is a directory", fix=f"for instance -o {file / 'report.html'}")
    try:
        write_private(target, page)
    except OSError as error:
        raise UserError(
            f"{file}: {error.strerror}", fix="-o with a file that you may write", see="the-page-cannot-be-written"
        ) from None
    return target
