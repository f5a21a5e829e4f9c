"""The JSON Schema against its metaschema, and against the same files as the model."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site, site_names

SCHEMA: dict[str, Any] = json.loads((REPOSITORY / "docs" / "reference" / "site.schema.json").read_text())
LAB = yaml.safe_load(find_site("lab").read_text())


def _errors(value: object) -> list[str]:
    validator = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(value)]


def test_schema_is_valid_draft_2020_12() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", site_names())
def test_sites_satisfy_the_schema(name: str) -> None:
    assert _errors(yaml.safe_load(find_site(name).read_text())) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("watermark",), "x"),
        (("name",), "Upper"),
        (("domain",), "lab"),
        (("cloud", "flavors", 0, "memory"), "2 GB"),
        (("cloud", "flavors", 0, "vcpus"), 0),
        (("cloud", "flavors", 0, "vcpus"), "2"),
        (("cloud", "flavors", 1, "accelerators"), {"V100": 1}),
        (("cloud", "networks", 0, "cidr"), "10.0.0.0"),
        (("cloud", "networks", 0, "gateway"), "router"),
        (("cloud", "instances", 0, "roles"), ["postgres"]),
        (("cloud", "instances", 0, "roles"), []),
        (("cloud", "deployment"), "cloud"),
        (("cluster", "gpu_nodes", "taints"), ["gpu"]),
        (("hosts", "nfs", "exports", 0, "path"), "srv"),
    ],
)
def test_editors_see_what_the_model_refuses(path: tuple[str | int, ...], value: object) -> None:
    site = json.loads(json.dumps(LAB))
    inner = site
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert _errors(site)


def test_every_key_is_described_in_the_schema() -> None:
    definitions = {"site": SCHEMA} | SCHEMA["$defs"]
    for name, definition in definitions.items():
        for key, value in definition.get("properties", {}).items():
            target = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else {}
            assert value.get("description") or target.get("description"), f"{name}.{key}"
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False
