"""Site files that differ from the lab's in a few words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import Problem, SiteError

LAB = (REPOSITORY / "inventories" / "lab" / "site.yaml").read_text()
Edit = tuple[str, str]
Mistake = tuple[Sequence[Edit], str, str, str, str]
"""Edits of the lab's site, key, part of the reason, part of the fix, text in the line that is named."""


@pytest.fixture
def site_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes the lab's site with words replaced; each must be in it."""

    def write(*edits: Edit, text: str = LAB) -> Path:
        for old, new in edits:
            assert old in text, f"{old!r} is not in the site file"
            text = text.replace(old, new, 1)
        (tmp_path / "catalogue.json").write_text("[]")
        file = tmp_path / "site.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def problems_of() -> Callable[[Path], Sequence[Problem]]:
    """All problems of a file; none for a right one."""

    def read(file: Path) -> Sequence[Problem]:
        try:
            load_site(file)
        except SiteError as error:
            return error.problems
        return ()

    return read


@pytest.fixture
def assert_found(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> Callable[[Mistake], None]:
    """Asserts that an error is reported with its line, its key and a fix, and nothing else."""

    def check(mistake: Mistake) -> None:
        edits, key, why, fix, in_line = mistake
        file = site_file(*edits)
        problems = problems_of(file)
        assert [p.key for p in problems] == [key], [str(p) for p in problems]
        problem = problems[0]
        assert why in problem.why
        assert fix in problem.fix
        assert problem.line is not None
        assert in_line in file.read_text().splitlines()[problem.line - 1]

    return check
