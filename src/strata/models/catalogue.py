"""The catalogue file of the ML Hub, as far as Strata must know it; the hub itself checks each field."""

from __future__ import annotations

import json
from pathlib import Path

MAXIMUM_CHARACTERS = 1_000_000
"""A ConfigMap holds no more."""


def read_catalogue(file: Path) -> str:
    """The text of a catalogue.

    Args:
        file: a JSON list of models, each a mapping with an id of its own.

    Raises:
        OSError: it is not there or cannot be read.
        ValueError: it is no catalogue; says why.
    """
    with file.open("rb") as stream:
        content = stream.read(4 * MAXIMUM_CHARACTERS + 4)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    if len(text) > MAXIMUM_CHARACTERS:
        raise ValueError(f"has more than {MAXIMUM_CHARACTERS:,} characters, the most that a ConfigMap holds")
    try:
        models = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(models, list):
        raise ValueError("must hold a list of models")
    seen: set[str] = set()
    for number, model in enumerate(models):
        identifier = model.get("id") if isinstance(model, dict) else None
        if not isinstance(identifier, str) or not identifier:
            raise ValueError(f"entry {number} has no id")
        if identifier in seen:
            raise ValueError(f"entry {number}: the id {identifier[:80]!r} stands twice")
        seen.add(identifier)
    return text


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")
