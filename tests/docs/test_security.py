"""docs/security.md shows the attacks that tests/lab runs."""

from __future__ import annotations

from tests.lab.attacks import table

from strata.site.paths import REPOSITORY


def test_the_documented_table_is_the_tested_one() -> None:
    assert table() in (REPOSITORY / "docs" / "security.md").read_text(), "python -m tests.lab.attacks"
