"""Wrong site files that are computed from the JSON Schema: each key in each way in which it can be wrong for itself,
then in conflict with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.site_file.loader import load_site
from strata.site_file.schema import site_schema

from .conftest import Answer
from .spoil import Key, Schema, Spoiler, Spoilt, dotted

COMPLETE = Path(__file__).parent / "complete"
SCHEMA = site_schema()
FILES = sorted(COMPLETE.glob("*.yaml"), key=lambda file: file.stat().st_size)
SITES = {file.stem: yaml.load(file.read_text(), yaml.CSafeLoader) for file in FILES}  # as safe_load, in C
SPOILERS = [Spoiler(SCHEMA, site) for site in SITES.values()]


def keys(spoilers: Iterable[Spoiler]) -> dict[str, tuple[Spoiler, Key]]:
    """All keys by dotted path; one of several sites with the first of them."""
    by_path: dict[str, tuple[Spoiler, Key]] = {}
    for spoiler in spoilers:
        for key in spoiler.all_keys():
            by_path.setdefault(dotted(key.path), (spoiler, key))
    return by_path


KEYS = keys(SPOILERS)
"""In the smallest site that has them: each is spoilt some thirty times, and a whole site is read each time."""
STEP = 3
"""A change tries one way of so many on each key, the next key the next ones; the nightly suite tries all."""


@pytest.fixture
def in_a_site(tmp_path: Path) -> Path:
    """A site file to write, with the files that the complete sites name beside it."""
    for name in ("authority.pem", "catalogue.json"):
        (tmp_path / name).write_text((COMPLETE / name).read_text())
    return tmp_path / "site.yaml"


@pytest.mark.parametrize("name", SITES)
def test_the_complete_sites_are_right(name: str) -> None:
    assert load_site(COMPLETE / f"{name}.yaml")


def test_every_key_of_the_schema_is_spoilt() -> None:
    """A section that no complete site has would be spoilt from the outside only: add it to complete/*.yaml."""
    models: dict[str, Schema] = {"Site": SCHEMA, **SCHEMA["$defs"]}
    names = {id(model["properties"]): name for name, model in models.items() if "properties" in model}
    declared = {(name, key) for name, model in models.items() for key in model.get("properties", {})}
    reached = {
        (names[key.section], str(key.path[-1]))
        for spoiler in SPOILERS
        for key in spoiler.all_keys()
        if key.section is not None
    }
    assert reached == declared


def test_there_are_many() -> None:
    def many(keys: Iterable[str], count: int) -> bool:
        spoilt = (case for spoiler, key in map(KEYS.__getitem__, keys) for case in spoiler.spoil(key))
        return len(list(islice(spoilt, count))) == count

    assert many(KEYS, 1000)
    assert many((name for name in KEYS if name.startswith("platform.services.")), 200)


@pytest.mark.parametrize(("number", "key"), [pytest.param(*each, id=each[1]) for each in enumerate(KEYS)])
def test_spoilt_key(number: int, key: str, in_a_site: Path, answer: Answer) -> None:
    spoiler, spoilt_key = KEYS[key]
    assert_told(islice(spoiler.spoil(spoilt_key), number % STEP, None, STEP), in_a_site, answer)


@pytest.mark.nightly
@pytest.mark.parametrize("key", KEYS)
def test_key_spoilt_in_every_way(key: str, in_a_site: Path, answer: Answer) -> None:
    spoiler, spoilt_key = KEYS[key]
    assert_told(spoiler.spoil(spoilt_key), in_a_site, answer)


def assert_told(ways: Iterable[Spoilt], file: Path, answer: Answer) -> None:
    """Each is reported at the key, with reason and fix, and nothing else is."""
    wrong: list[object] = []
    for spoilt in ways:
        file.write_text(spoilt.text)
        problems = answer(file)
        # at the key, or where the value has parts below it, and about nothing else
        below = (f"{spoilt.key}.", f"{spoilt.key}[")
        right = [
            p
            for p in problems
            if (p.line == spoilt.line if p.key == spoilt.key else p.key.startswith(below))
            and spoilt.why in p.why
            and spoilt.fix in p.fix
        ]
        if not right or len(right) < len(problems):
            wrong.append(
                (spoilt.title, spoilt.line, spoilt.why, spoilt.fix, [str(p)[len(str(file)) :] for p in problems])
            )
    assert not wrong, "\n".join(map(str, wrong))


def section(key: str) -> str:
    """The key's list entry, or the section around it."""
    return key[:-1].rpartition("[")[0] if key.endswith("]") else key.rpartition(".")[0]


def test_conflicts(in_a_site: Path, answer: Answer) -> None:
    """A duplicate entry, a name of nothing: reported at the key; of other keys, only those in its own entry or list."""
    wrong: list[object] = []
    accepted: set[str] = set()
    reported = 0
    for spoiler, key in keys(SPOILERS[::-1]).values():  # the largest site has the most names to contradict
        for spoilt in spoiler.conflicts(key):
            in_a_site.write_text(spoilt.text)
            problems = answer(in_a_site)
            reported += bool(problems)
            if not problems:
                accepted.add(section(spoilt.key))
                continue
            right = [p for p in problems if (p.key, p.line) == (spoilt.key, spoilt.line) and spoilt.why in p.why]
            if not right or not all(p.key.startswith(section(spoilt.key)) for p in problems):
                wrong.append((spoilt.title, spoilt.line, [str(p) for p in problems]))
    assert not wrong, "\n".join(map(str, wrong))
    assert accepted == set()
    assert reported >= 15


def exclusive() -> Iterator[tuple[Spoilt, tuple[str, str]]]:
    """Two keys that each are in a section of some complete site, and in none together: put together."""
    seen: dict[int, list[tuple[Spoiler, tuple[str | int, ...], dict[str, Any]]]] = {}
    for spoiler in SPOILERS:
        for identity, path, content in spoiler.sections():
            seen.setdefault(identity, []).append((spoiler, path, content))
    for places in seen.values():
        known = sorted({key for _, _, content in places for key in content})
        for pair in combinations(known, 2):
            if any(set(pair) <= set(content) for _, _, content in places):
                continue
            for key, other in (pair, pair[::-1]):
                value = next(content[other] for _, _, content in places if other in content)
                spoiler, path, _ = next(place for place in places if key in place[2])
                yield spoiler.beside(path, other, value), pair


def test_keys_that_exclude_each_other(in_a_site: Path, answer: Answer) -> None:
    """Reported at the section or a key of the two; a key without a conflict joins the others in a complete site."""
    accepted: set[str] = set()
    wrong: list[object] = []
    cases = list(exclusive())
    for spoilt, pair in cases:
        at = {spoilt.key, *(f"{spoilt.key}.{key}" for key in pair)}
        in_a_site.write_text(spoilt.text)
        problems = answer(in_a_site)
        if not problems:
            accepted.add(spoilt.title)
        elif not {p.key for p in problems} <= at:
            wrong.append((spoilt.title, [str(p) for p in problems]))
    assert not wrong, "\n".join(map(str, wrong))
    assert accepted == set()
    assert len(cases) >= 8
