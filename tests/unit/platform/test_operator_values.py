"""Values files beside a site file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.errors import UserError
from strata.models import load_site
from strata.platform.operator_values import check_operator_values, merged
from strata.platform.releases import check_values, releases
from strata.site.paths import REPOSITORY

from .test_values import SITES, state_of


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """The lab's site file, with an empty folder for values beside it."""
    copy = tmp_path / "lab"
    shutil.copytree(SITES["lab"].parent, copy)
    (copy / "values").mkdir(exist_ok=True)
    return copy / "site.yaml"


def write(site_file: Path, release: str, values: object) -> None:
    (site_file.parent / "values" / f"{release}.yaml").write_text(yaml.safe_dump(values))


def test_the_operator_wins(site_file: Path) -> None:
    write(site_file, "cluster-base", {"devicePlugin": {"enabled": False}})
    state = state_of(site_file)
    base = releases(state.site)[0].values(state)["devicePlugin"]
    assert base["enabled"] is False
    assert base["resources"], "what Strata writes stays"


def test_merging_is_helm_s() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merged(base, {"a": {"c": [3], "e": 2}, "d": None}) == {"a": {"b": 1, "c": [3], "e": 2}}


@pytest.mark.parametrize(
    ("release", "values", "why"),
    [
        ("cluster-base", {"devicePlugin": {"enabled": "no"}}, r"devicePlugin\.enabled: \"no\" — 'no' is not of type"),
        ("cluster-base", {"devicePlugins": {}}, r"devicePlugins.*was unexpected"),
        ("cluster-bass", {}, r"no release of that name; it has cluster-base, traefik, .*tenant-research"),
        ("tenant-research", [1], "is no mapping"),
        ("tenant-research", "a: [", "is no mapping"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_starts(site_file: Path, release: str, values: Any, why: str) -> None:
    write(site_file, release, values)
    with pytest.raises(UserError, match=why) as refused:
        check_values(load_site(site_file), site_file)
    assert f"values/{release}.yaml" in refused.value.message
    assert refused.value.fix


def test_a_part_of_the_values_needs_no_required_ones(site_file: Path) -> None:
    for release in releases(load_site(site_file)):
        write(site_file, release.name, {})
    check_values(load_site(site_file), site_file)


def _leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name)
        yield from _leaves(inner, (*path, name))


def _without_placeholders(values: Any) -> Any:
    """Values without the empty ones that only show where something has to be set."""
    if not isinstance(values, dict):
        return values
    return {name: _without_placeholders(value) for name, value in values.items() if value not in ("", None, [])}


@pytest.mark.parametrize("chart", sorted(path.name for path in (REPOSITORY / "helm").iterdir()))
def test_users_reach_every_value_of_every_chart(site_file: Path, chart: str) -> None:
    """What a chart's values.yaml describes, its schema takes; what the schema takes, a values file can set."""
    schema = json.loads((REPOSITORY / "helm" / chart / "values.schema.json").read_text())
    defaults = yaml.safe_load((REPOSITORY / "helm" / chart / "values.yaml").read_text())
    paths = list(_leaves(schema))
    assert set(defaults) <= {path[0] for path in paths}
    write(site_file, "release", _without_placeholders(defaults))
    check_operator_values(site_file, {"release": chart})
