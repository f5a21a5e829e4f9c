"""A key one level too high: the fix names where it belongs."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.models.key_path import KeyPath, dotted
from strata.site.paths import REPOSITORY

from .conftest import Answer

COMPLETE = Path(__file__).parent / "complete"
FILES = (REPOSITORY / "inventories/lab/site.yaml", *sorted(COMPLETE.glob("*.yaml")))
ANY_KEY = {
    ("hosts", "postgresql", "settings"),
    ("cluster", "gpu_nodes", "labels"),
    ("cluster", "kubespray", "variables"),
}
"""Sections of names that the operator chooses."""
AMBIGUOUS = {"hostname", "replicas", "shared_export", "storage"}
"""Keys that are right below two services of a site; the fix names both."""
IN_BOTH = {("cloud", "kolla", "external_network")}
"""Keys that the section above has, too: moved there, they are not unknown."""


def moved(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Each key below a section, and the section above with the key beside the one that it was in."""
    for key, value in data.items():
        if isinstance(value, dict):
            for inner in value:
                if (*path, key) not in ANY_KEY and (*path, key, inner) not in IN_BOTH and inner not in data:
                    changed = copy.deepcopy(data)
                    changed[inner] = changed[key].pop(inner)
                    yield (*path, key, inner), changed
            for place, changed in moved(value, (*path, key)):
                yield place, {**data, key: changed}


def write(tmp_path: Path, content: object) -> Path:
    for name in ("authority.pem", "catalogue.json"):
        (tmp_path / name).write_text((COMPLETE / name).read_text())
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_key_one_level_too_high(file: Path, answer: Answer, tmp_path: Path) -> None:
    wrong = []
    for path, content in moved(yaml.safe_load(file.read_text())):
        fixes = {p.key: p.fix for p in answer(write(tmp_path, content)) if p.why == "is not a known key"}
        fix = fixes.get(dotted((*path[:-2], path[-1])), "")
        places = fix.removeprefix("indent it so that it is below ").split(" or ")
        if dotted(path[:-1]) not in places or (len(places) > 1 and path[-1] not in AMBIGUOUS):
            wrong.append(f"{dotted(path)}: {fix}")
    assert not wrong, "\n".join(wrong)


CASES = {
    "a section that is not there": ({"cluster": {"name": "a", "cuda": 12}}, "cluster.cuda", "cluster.gpu_nodes"),
    "a misspelt key": ({"access": {"htps": []}}, "access.htps", "did you mean https?"),
    "a real secret": (
        {"platform": {"services": {"external_issuer": {"url": "https://a.org", "token": "s3cret"}}}},
        "platform.services.external_issuer.token",
        "remove it",
    ),
    "one level too low": (
        {"cluster": {"domain": "a.example.org"}},
        "cluster.domain",
        "begin its line without indentation",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fix(case: str, answer: Answer, tmp_path: Path) -> None:
    content, key, fix = CASES[case]
    fixes = {p.key: p.fix for p in answer(write(tmp_path, content))}
    assert re.search(rf"{re.escape(fix)}$|^{re.escape(fix)}", fixes[key]), fixes[key]
