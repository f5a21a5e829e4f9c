"""What `up` shows at its end about users."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from strata.cli.summary import first_login
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site

LAB = REPOSITORY / "inventories" / "lab"
ACCOUNT = "https://login.lab.strata.test/realms/strata/account"


@pytest.mark.parametrize(
    ("portal", "members", "expected"),
    [
        (True, [], "`strata users add lab NAME --tenant research` prints … at https://lab.strata.test/"),
        (True, ["ada"], "`strata users invite lab ada` prints … at https://lab.strata.test/"),
        (False, ["ada"], f"`strata users invite lab ada` prints … at {ACCOUNT}"),
    ],
)
def test_first_login(tmp_path: Path, portal: bool, members: list[str], expected: str) -> None:
    content = yaml.safe_load((LAB / "site.yaml").read_text())
    platform = content["platform"]
    platform["services"] = {"keycloak": {}, **({"portal": {}} if portal else {})}
    platform["tenants"][0]["members"] = [{"name": name} for name in members]
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    said = first_login(load_site(tmp_path / "site.yaml"), ACCOUNT)
    assert said == expected.replace("…", "a password for the first login")
