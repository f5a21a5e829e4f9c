"""Values files beside a site file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.errors import UserError
from strata.platform.operator_values import check_operator_values, merged
from strata.platform.releases import check_values, releases
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.toolchain import load_versions
from strata_lab.provider import LabProvider

from .test_values import SITES, state_of

HELM = Path(sys.executable).with_name("helm")


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


CHART = {
    "Chart.yaml": "{apiVersion: v2, name: proxy, version: 1.0.0}",
    "values.yaml": "{a: {b: default, c: [1, 2], f: default}, d: default, g: {h: 1}}",
    "values.schema.json": '{"properties": {"d": {"type": "string"}, "g": {"type": "object"}}}',
    "templates/values.yaml": "{{ toYaml .Values }}",
}


def test_merging_is_helm_s(tmp_path: Path) -> None:
    """One file with what is merged renders as the two files do; null removes what the chart has, too."""
    base = {"a": {"b": 1, "c": [1, 2]}, "d": "x", "i": 1}
    over = {"a": {"b": None, "c": [3], "e": 2}, "d": None, "g": {"h": None}, "i": {"j": 1}}
    for name, text in CHART.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = {"base.json": base, "over.json": over, "merged.json": merged(base, over)}
    for name, values in files.items():
        (tmp_path / name).write_text(json.dumps(values))

    def rendered(*names: str) -> Any:
        options = [option for name in names for option in ("--values", str(tmp_path / name))]
        command = [str(HELM), "template", "proxy", str(tmp_path), *options]
        return yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert rendered("merged.json") == rendered("base.json", "over.json")
    assert rendered("merged.json") == {"a": {"c": [3], "e": 2, "f": "default"}, "g": {}, "i": {"j": 1}}


def test_null_is_checked_as_helm_checks_it(site_file: Path) -> None:
    """helm removes the key before it looks into the schema."""
    write(site_file, "cluster-base", {"devicePlugin": {"enabled": None}})
    check_values(load_site(site_file), site_file)


def test_values_are_checked_by_the_chart_that_is_installed(
    site_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A substitute refuses values that the project's chart takes, which are not known before it is fetched."""
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    write(site_file, "traefik", {"deployment": {"podLabels": 1}})
    lab = load_site(site_file)
    with pytest.raises(UserError, match=r"traefik\.yaml: deployment"):
        check_values(lab, site_file)
    monkeypatch.setattr(LabProvider, "allows_substitutes", False)
    check_values(lab, site_file)
    chart = load_versions().charts["traefik"]
    fetched = tmp_path / f"cache/charts/{chart.version}-{(chart.digest or '')[7:19]}"
    (fetched / "traefik").mkdir(parents=True)
    (fetched / "source").write_text("mirror")
    (fetched / "traefik" / "values.schema.json").write_text('{"properties": {"deployment": {"type": "string"}}}')
    with pytest.raises(UserError, match="is not of type 'string'"):
        check_values(lab, site_file)


@pytest.mark.parametrize(
    ("release", "values", "why"),
    [
        ("cluster-base", {"devicePlugin": {"enabled": "no"}}, r"devicePlugin\.enabled: \"no\" — 'no' is not of type"),
        ("cluster-base", {"devicePlugins": {}}, r"devicePlugins.*was unexpected"),
        ("cluster-bass", {}, r"no release of that name; it has cluster-base, traefik, .*tenant-research"),
        ("tenant-research", [1], "is not a mapping"),
        ("tenant-research", "a: [", "is not a mapping"),
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
    check_operator_values(site_file, {"release": (chart, REPOSITORY / "helm" / chart)})
