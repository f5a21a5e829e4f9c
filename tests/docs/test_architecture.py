"""docs/architecture.md: names what exists, and the path of the quota that it draws is the code's."""

from __future__ import annotations

import pkgutil
import re

import pytest
import yaml

from strata.models.platform import Tenant
from strata.models.site import Site
from strata.platform import tenant
from strata.platform.releases import releases
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site

TEXT = (REPOSITORY / "docs" / "architecture.md").read_text()
NAMES = sorted(set(re.findall(r"\bstrata(?:\.[A-Za-z_]+)+", TEXT)) - {"strata.site", "strata.test"})


def site_and_tenant() -> tuple[Site, Tenant]:
    """The sample site and the tenant whose quota the document follows."""
    site = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")
    return site, next(tenant for tenant in site.platform.tenants if tenant.name == "research")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_there(name: str) -> None:
    pkgutil.resolve_name(name)  # raises where there is none


def test_each_package_is_in_the_table() -> None:
    source = REPOSITORY / "src" / "strata"
    packages = {f"strata.{path.stem}" for path in source.iterdir() if path.suffix == ".py" or path.is_dir()}
    missing = {package for package in packages if not package.startswith("strata.__")} - {
        ".".join(name.split(".")[:2]) for name in re.findall(r"`(strata\.[a-z_.]+)`", TEXT)
    }
    assert not missing


def test_the_quota_takes_the_path_that_is_drawn() -> None:
    site, research = site_and_tenant()
    drawn = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert drawn is not None
    path = drawn[1]
    written = re.search(r"quota\.accelerators: (\{.*\})", path)
    model, values = re.findall(r"accelerators == (\{.*\})", path)
    assert written is not None
    assert yaml.safe_load(written[1]) == yaml.safe_load(model) == research.quota.accelerators
    assert yaml.safe_load(values) == tenant.values(site, research)["quota"]["accelerators"]
    release = next(release for release in releases(site) if release.makes == "research")
    assert f"release {release.name} " in path
    template = (REPOSITORY / release.chart_source / "templates" / "resourcequota.yaml").read_text()
    assert f"{release.chart_source}/templates/resourcequota.yaml" in path
    assert "requests.{{ $name }}: {{ int64 $count | quote }}" in template
    (resource,) = yaml.safe_load(values)
    assert f"requests.{resource}:" in path
