"""The pictures of the report in the documents show the page as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.report.build import build_report
from strata.report.model import State
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata_bench.screenshot import all_up, page_digest, pictured_digest

PICTURES = sorted((REPOSITORY / "docs" / "images").glob("report-*.png"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_shows_the_page_as_it_is(picture: Path) -> None:
    assert pictured_digest(picture) == page_digest(), (
        "run `python -m strata_bench.screenshot`, and look at the pictures"
    )


def test_the_pictured_site_is_up_as_a_whole(state_directory: Path) -> None:
    context = SiteContext.load(find_site("lab"))
    report = build_report(context, observation=all_up(context))
    assert {layer.state for layer in report.layers} == {State.GOOD}
    assert [card.pod.name for card in report.cards if card.pod] == ["training"]
