"""Variables of the role, and errors of a site file."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.inventory.role_variables import role_variables
from strata.models.site import Site
from strata.roles import port
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

TEXT = """
name: metal
domain: metal.example.org
access: {ssh: [198.51.100.1/32]}
hosts:
  machines:
    - {name: host-1, address: 192.0.2.1, roles: [example_role]}
  example_role: {greeting: Hello}
"""


def written(directory: Path, text: str = TEXT) -> Site:
    """The site of a file with this text."""
    file = directory / "site.yaml"
    file.write_text(text)
    return load_site(file)


def test_the_text_follows_from_the_site(tmp_path: Path) -> None:
    variables = role_variables("example_role", written(tmp_path), None)
    assert variables == {"example_role_port": port("example_role"), "example_role_text": "Hello metal."}


def test_the_name_is_not_in_the_text_twice(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="contains the site's name"):
        written(tmp_path, TEXT.replace("greeting: Hello", "greeting: Hello metal"))
