"""Users can set what the documents name: keys of site.yaml, and values of releases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.models.site import Site
from strata.site.paths import REPOSITORY

from .markdown import documents

DOCUMENTS = documents()
SECTIONS = "|".join(name for name in Site.model_fields if name not in ("name", "domain"))
KEY = re.compile(rf"`((?:{SECTIONS})(?:\.[a-z_<>0-9-]+(?:\[\])?)+)[:`]")
VALUE = re.compile(r"values?\s+`([A-Za-z.]+)[^`]*`\s+of\s+`helm/([a-z-]+)`")
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
VALUES_FILE = re.compile(r"# inventories/[^/]+/values/([a-z-]+)\.yaml")
FILES = (".yaml", ".yml")


@cache
def site_schema() -> dict[str, Any]:
    """JSON schema of site.yaml."""
    return Site.model_json_schema()


def chart_schema(chart: str) -> dict[str, Any]:
    """JSON schema of a chart's values."""
    schema: dict[str, Any] = json.loads((REPOSITORY / "helm" / chart / "values.schema.json").read_text())
    return schema


def settable(root: dict[str, Any], node: Any, path: tuple[str, ...], *, named: bool = False) -> bool:
    """Whether a schema has a path; where entries of lists are named, their names may have dots."""
    if not path or not isinstance(node, dict):
        return not path
    if "$ref" in node:
        target: Any = root
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        return settable(root, target, path, named=named)
    if any(settable(root, branch, path, named=named) for branch in (*node.get("anyOf", ()), *node.get("allOf", ()))):
        return True
    if "items" in node:
        inside = settable(root, node["items"], path, named=named)
        return inside or (named and settable(root, node, path[1:], named=named))
    if path[0] in node.get("properties", {}):
        return settable(root, node["properties"][path[0]], path[1:], named=named)
    for pattern, inner in node.get("patternProperties", {}).items():
        if re.search(pattern, path[0]):
            return settable(root, inner, path[1:], named=named)
    more = node.get("additionalProperties", False)
    return isinstance(more, dict) and settable(root, more, path[1:], named=named)


def leaves(content: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all values in YAML; entries of lists have no step of their own."""
    if isinstance(content, dict):
        for key, inner in content.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(content, list) and content:
        for inner in content:
            yield from leaves(inner, path)
    else:
        yield path


def unknown(document: Path) -> Iterator[str]:
    """What a document names and nobody can set."""
    text = (REPOSITORY / document).read_text()
    for match in KEY.finditer(text):
        path = tuple(match[1].replace("[]", "").split("."))
        if not match[1].endswith(FILES) and not settable(site_schema(), site_schema(), path, named=True):
            yield match[1]
    for match in VALUE.finditer(text):
        schema = chart_schema(match[2])
        if not settable(schema, schema, tuple(match[1].split("."))):
            yield f"{match[1]} of helm/{match[2]}"
    for block in BLOCK.finditer(text):
        release = VALUES_FILE.search(block[1])
        content = yaml.safe_load(block[1].replace("…", "x"))
        if release is not None:
            schema = chart_schema(release[1])
        elif isinstance(content, dict) and set(content) <= set(Site.model_fields):
            schema = site_schema()
        else:
            continue
        yield from (".".join(path) for path in leaves(content) if not settable(schema, schema, path))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_what_a_document_names_can_be_set(document: Path) -> None:
    assert list(unknown(document)) == []


def test_a_setting_that_is_not_there_is_found(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text(
        "`cloud.flavours` and `cloud.flavors.cpu.small.memory`, value `devicePlugin.on: true` of `helm/cluster-base`\n"
        "```yaml\nhosts: {nfs: {exports: [{nome: data}]}}\n```\n"
        "```yaml\n# inventories/<site>/values/cluster-base.yaml\ndevicePlugin: {onn: true}\n```\n"
    )
    assert list(unknown(document)) == [
        "cloud.flavours",
        "devicePlugin.on of helm/cluster-base",
        "hosts.nfs.exports.nome",
        "devicePlugin.onn",
    ]
