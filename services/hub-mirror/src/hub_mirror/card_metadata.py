"""What a card has about its repository: YAML in its first lines, between two lines of dashes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

CARD = "README.md"
LONGEST = 64 * 1024
"""Bytes of a card in which its metadata must end."""
MOST_VALUES = 100
LONGEST_VALUE = 200
FIELDS = (
    "license", "language", "tags", "datasets", "library_name", "pipeline_tag", "base_model", "pretty_name",
    "task_categories", "size_categories",
)  # fmt: skip
"""Of the Hub's cards; others are left out."""
_BLOCK = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_TAGGED = {"license": "license:", "datasets": "dataset:", "base_model": "base_model:"}
_TAGGED_OF_DATASETS = {name: f"{name}:" for name in ("license", "language", "task_categories", "size_categories")}


def read_metadata(card: Path) -> dict[str, Any]:
    """Of a file; empty where it has none, or none that can be read: what tenants write is not trusted."""
    with card.open("rb") as file:
        text = file.read(LONGEST).decode(errors="replace")
    return metadata(text)


def metadata(text: str) -> dict[str, Any]:
    """The known fields of a card, each a text or a list of texts."""
    block = _BLOCK.match(text)
    if block is None:
        return {}
    try:
        # libyaml: it refuses 1,000 levels, of which PyYAML's own scanner makes a minute of work in a card of 64 KiB
        # an alias in an alias in an alias is a small file and a large value
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block[1], yaml.CSafeLoader)):
            return {}
        # all values are texts: Norwegian is `no`
        document = yaml.load(block[1], yaml.CBaseLoader)  # noqa: S506 - it makes texts, lists and mappings only
    except (yaml.YAMLError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: value for name in FIELDS if (value := _value(document.get(name)))}


def _value(value: object) -> str | list[str] | None:
    if isinstance(value, str):
        return value if 0 < len(value) <= LONGEST_VALUE and "\0" not in value else None
    if isinstance(value, list):
        return [text for text in map(_value, value[:MOST_VALUES]) if isinstance(text, str)]
    return None


def texts(metadata: Mapping[str, Any], name: str) -> list[str]:
    """Values of a field that may be one text or several."""
    value = metadata.get(name, [])
    return [value] if isinstance(value, str) else list(value)


def tags(metadata: Mapping[str, Any], *, dataset: bool) -> list[str]:
    """As the Hub derives them, which its filters and clients read."""
    derived = [
        f"{prefix}{value}"
        for name, prefix in (_TAGGED_OF_DATASETS if dataset else _TAGGED).items()
        for value in texts(metadata, name)
    ]
    plain = (
        []
        if dataset
        else [value for name in ("library_name", "pipeline_tag", "language") for value in texts(metadata, name)]
    )
    return list(dict.fromkeys([*texts(metadata, "tags"), *plain, *derived]))
