"""ganesha's configuration, as the role's template writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from ansible.plugins.filter.core import comment
from ansible.plugins.test.core import version_compare
from jinja2 import Environment, FileSystemLoader

from strata.inventory.role_variables import role_variables as variables
from strata.models.site import Site
from strata.site.paths import REPOSITORY

TEMPLATES = REPOSITORY / "ansible" / "roles" / "nfs_server" / "templates"


def export_ids(names: Sequence[str]) -> dict[str, int]:
    """Export_Id of each export, by its name."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES))  # noqa: S701  # as Ansible's: no HTML
    environment.filters |= {"comment": comment}
    environment.tests["version"] = version_compare
    content = yaml.safe_load((REPOSITORY / "inventories/lab/site.yaml").read_text())
    content["hosts"]["nfs"]["exports"] = [{"name": name, "path": f"/srv/{name}"} for name in names]
    content["platform"]["services"] = {}
    exports = variables("nfs_server", Site.model_validate(content), None)["nfs_server_exports"]
    text = environment.get_template("ganesha.conf.j2").render(
        nfs_server_exports=exports, _nfs_server_version="4.3", ansible_facts={"virtualization_tech_guest": []}
    )
    ids = [int(number) for number in re.findall(r"Export_Id = (\d+);", text)]
    assert len(ids) == len(names)
    return dict(zip(names, ids, strict=True))


def test_an_export_keeps_its_number_when_another_comes() -> None:
    """It is part of each file handle: with another one, clients that have it mounted read `Stale file handle`."""
    before = export_ids(["data", "homes", "tenants"])
    after = export_ids(["claims", "data", "homes", "tenants"])
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == len(after)
    assert all(0 < number < 2**16 for number in after.values())


def test_numbers_are_those_of_releases_before() -> None:
    assert export_ids(["claims", "data", "tenants"]) == {"claims": 6366, "data": 15400, "tenants": 4027}
