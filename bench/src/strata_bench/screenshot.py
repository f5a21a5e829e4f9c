"""Pictures of a running site's page for the docs: `python -m strata_bench.screenshot [SITE] [DIRECTORY]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from strata.models import find_site
from strata.report.build import build_report
from strata.report.drift import look_for_drift
from strata.report.page import render_page
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_bench.browser import browser

WIDTH, HEIGHT = 1280, 1180
"""Of the picture, in pixels: layers, machines and cards."""


def screenshots(site: str, directory: Path) -> list[Path]:
    """Writes report-light.png and report-dark.png, made from the site as it is now.

    Raises:
        UserError: there is no such site, or no chromium.
    """
    context = SiteContext.load(find_site(site))
    page = render_page(build_report(context, drift=look_for_drift(context)))
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as temporary, browser() as window:
        file = Path(temporary) / "report.html"
        file.write_text(page)
        for name in ("light", "dark"):
            window.open(file, width=WIDTH, height=HEIGHT, dark=name == "dark")
            written.append(directory / f"report-{name}.png")
            window.screenshot(written[-1], whole=False)
    return written


def main() -> None:
    """Entry point."""
    site = sys.argv[1] if len(sys.argv) > 1 else "lab"
    directory = Path(sys.argv[2]) if len(sys.argv) > 2 else REPOSITORY / "docs" / "images"
    for file in screenshots(site, directory):
        print(f"{file} ({file.stat().st_size / 1024:.0f} KiB)")


if __name__ == "__main__":
    main()
