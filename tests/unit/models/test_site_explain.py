"""`strata explain`: value, origin, place and meaning of a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.models.base import Model
from strata.models.key_path import dotted
from strata.site_file.explain import explain
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

LAB = find_site("lab")
LINES = LAB.read_text().splitlines()


@pytest.mark.parametrize(
    "key",
    [
        "cloud.flavors[1].memory",
        "cloud.flavors.1.memory",
        "cloud.flavors.gpu.v100.1.memory",
        "cloud.flavors[gpu.v100.1].memory",
    ],
)
def test_a_set_key_by_index_and_by_name(key: str) -> None:
    explanation = explain(LAB, key)
    assert (explanation.key, explanation.value, explanation.origin) == ("cloud.flavors[1].memory", "4 GiB", "set")
    assert explanation.line is not None
    assert "gpu.v100.1" in LINES[explanation.line - 1]
    assert explanation.layer == "cloud"


def test_a_default() -> None:
    explanation = explain(LAB, "cloud.networks.platform.gateway")
    assert (explanation.value, explanation.origin, explanation.line) == ("10.77.0.1", "default", None)
    assert "default" in explanation.text()


def test_unit_and_choices() -> None:
    assert explain(LAB, "cloud.flavors.0.vcpus").unit == "virtual CPUs"
    assert "lab" in explain(LAB, "cloud.deployment").choices


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("hosts.firewall", "true or false"),
        ("cloud.images[0].id", "UUID"),
        ("cloud.networks.platform.gateway", "address"),
        ("cluster.pod_network", "network"),
        ("platform.services.prometheus_server", "PrometheusServer"),
    ],
)
def test_types_have_their_names(key: str, name: str) -> None:
    assert explain(LAB, key).type == name


def test_a_switch_is_shown_as_yaml_writes_it() -> None:
    assert "hosts.firewall = true\n" in explain(LAB, "hosts.firewall").text()


def test_a_section_lists_its_keys() -> None:
    assert set(explain(LAB, "cluster").keys) >= {"name", "datastore", "pod_network"}


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("clod", "did you mean cloud?"),
        ("hosts.nfs.exprts", "did you mean exports?"),
        ("cloud.instances.worker-9", "did you mean worker-1?"),
        ("cloud.instances.99", "cloud.instances[0]"),
        ("cloud.hypervisors.1.accelerators.v10", "did you mean v100?"),
        ("name.x", "name"),
        ("", "name"),
    ],
)
def test_unknown_keys(key: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        explain(LAB, key)
    assert fix in (caught.value.fix or "")


def _keys(model: Model, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        yield (*path, name)
        for index, entry in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(entry, Model):
                yield from _keys(entry, (*path, name, index))
        if isinstance(value, Model):
            yield from _keys(value, (*path, name))


def test_every_key_of_the_lab_is_explained() -> None:
    keys = [dotted(path) for path in _keys(load_site(LAB))]
    assert len(keys) > 100
    # each call reads the file; every fifth covers all kinds of keys
    for key in keys[::5]:
        explanation = explain(LAB, key)
        assert explanation.key == key
        assert explanation.description


def test_a_wrong_site_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("name: x\n")
    with pytest.raises(UserError, match="domain"):
        explain(file, "name")
