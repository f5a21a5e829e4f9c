"""`strata new`: a site from another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.scaffold.site import new_site
from strata.site_file.inventories import find_site, site_names
from strata.site_file.loader import load_site


@pytest.mark.parametrize("like", site_names())
def test_copy_is_a_valid_site_with_its_comments(tmp_path: Path, like: str) -> None:
    old = find_site(like)
    file = new_site("fresh", old, tmp_path)
    site, before = load_site(file), load_site(old)
    assert (site.name, file) == ("fresh", tmp_path / "fresh" / "site.yaml")
    assert site.domain != before.domain
    assert (site.cloud is None) == (before.cloud is None)
    if site.cloud is not None and before.cloud is not None:
        assert site.cloud.instances == before.cloud.instances
    comments = [line for line in old.read_text().splitlines()[1:] if line.lstrip().startswith("#")]
    assert comments
    assert all(line in file.read_text() for line in comments if not re.search(r"\d+\.\d+\.\d+\.\d+", line))


def test_editor_line_points_to_the_schema(tmp_path: Path) -> None:
    file = new_site("fresh", find_site("lab"), tmp_path)
    schema = file.read_text().splitlines()[0].partition("$schema=")[2]
    assert (file.parent / schema).resolve().name == "site.schema.json"
    assert (file.parent / schema).resolve().is_file()


def test_existing_site_is_not_overwritten(tmp_path: Path) -> None:
    file = new_site("fresh", find_site("lab"), tmp_path)
    file.write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        new_site("fresh", find_site("lab"), tmp_path)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["", "Upper", "a b", "../x", "-a", "a" * 64])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="RFC 1123"):
        new_site(name, find_site("lab"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        new_site("fresh", find_site("lab"), tmp_path / "file")
