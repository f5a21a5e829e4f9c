"""Wrong site files that are computed from the JSON Schema, each key in each way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from strata.models import load_site
from strata.models.schema import site_schema

from .conftest import Answer
from .spoil import Key, Schema, Spoiler, dotted

COMPLETE = Path(__file__).parent / "complete"
SCHEMA = site_schema()
SITES = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(COMPLETE.glob("*.yaml"))}
SPOILERS = [Spoiler(SCHEMA, site) for site in SITES.values()]
KEYS: dict[str, tuple[Spoiler, Key]] = {}
for _spoiler in SPOILERS:
    for _key in _spoiler.all_keys():
        KEYS.setdefault(dotted(_key.path), (_spoiler, _key))  # a key of several sites is spoilt in the first of them


@pytest.mark.parametrize("name", SITES)
def test_the_complete_sites_are_right(name: str) -> None:
    assert load_site(COMPLETE / f"{name}.yaml")


def test_every_key_of_the_schema_is_spoilt() -> None:
    """A section that no complete site has would be spoilt from the outside only: add it to complete/*.yaml."""
    models: dict[str, Schema] = {"Site": SCHEMA, **SCHEMA["$defs"]}
    names = {id(model["properties"]): name for name, model in models.items() if "properties" in model}
    wanted = {(name, key) for name, model in models.items() for key in model.get("properties", {})}
    reached = {
        (names[key.section], str(key.path[-1]))
        for spoiler in SPOILERS
        for key in spoiler.all_keys()
        if key.section is not None
    }
    assert reached == wanted


def test_there_are_many() -> None:
    assert sum(1 for spoiler, key in KEYS.values() for _ in spoiler.spoil(key)) >= 1000


@pytest.mark.parametrize("key", KEYS)
def test_spoilt_key(key: str, tmp_path: Path, answer: Answer) -> None:
    for name in ("authority.pem", "catalogue.json"):
        (tmp_path / name).write_text((COMPLETE / name).read_text())
    file = tmp_path / "site.yaml"
    wrong: list[object] = []
    spoiler, spoilt_key = KEYS[key]
    for spoilt in spoiler.spoil(spoilt_key):
        file.write_text(spoilt.text)
        found = answer(file)
        # at the key, or where the value has parts below it, and about nothing else
        below = (f"{spoilt.key}.", f"{spoilt.key}[")
        right = [
            p
            for p in found
            if (p.line == spoilt.line if p.key == spoilt.key else p.key.startswith(below))
            and spoilt.why in p.why
            and spoilt.fix in p.fix
        ]
        if not right or len(right) < len(found):
            wrong.append((spoilt.title, spoilt.line, spoilt.why, spoilt.fix, [str(p)[len(str(file)) :] for p in found]))
    assert not wrong, "\n".join(map(str, wrong))
