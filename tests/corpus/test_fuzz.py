"""Whatever is in a site file: a site or SiteError, soon, and in little memory."""

from __future__ import annotations

import copy
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Answer
from .spoil import Writer

HERE = Path(__file__).parent
COMPLETE = (HERE / "complete" / "existing.yaml").read_text()
TREE: dict[str, Any] = yaml.safe_load(COMPLETE)
# hypothesis measures wall time, which states nothing on a loaded machine: `answer` ends what never returns
FUZZ = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
INDICATORS = "[]{},:#&*!|>'\"%@`-?\\\t\n\r \0\ufeff\u2028\u00a0"
WORDS = (
    *(
        "- ",
        ": ",
        "\n  ",
        "\n- ",
        "---\n",
        "...\n",
        "<<: ",
        "*a",
        "&a ",
        "? ",
        "''",
        "!!str ",
        "!!python/name:os.system ",
    ),
    *("~", "null", "true", "no", ".nan", "0x1F", "010", "1e999", "-0", "${A}", "{{ a }}", "😀", "\ud7ff", "e\u0301"),
    *("name", "cloud", "roles", "v100", "10.0.0.0/24", "32 GiB"),
)
TOKENS = st.sampled_from((*INDICATORS, *WORDS))
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


@FUZZ
@given(content=st.binary(max_size=400))
def test_bytes(content: bytes, tmp_path: Path, answer: Answer) -> None:
    file = tmp_path / "site.yaml"
    file.write_bytes(content)
    assert answer(file)  # so few bytes are not site


@FUZZ
@given(pieces=st.lists(st.one_of(TOKENS, st.text(max_size=5)), max_size=60))
def test_text_like_yaml(pieces: list[str], tmp_path: Path, answer: Answer) -> None:
    file = tmp_path / "site.yaml"
    file.write_bytes("".join(pieces).encode("utf-8", "surrogatepass"))
    assert answer(file)


@FUZZ
@given(data=st.data())
def test_mangled_text(data: st.DataObject, tmp_path: Path, answer: Answer) -> None:
    """A right file with pieces cut out, put in, copied elsewhere."""
    text = COMPLETE
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        end = begin + data.draw(st.integers(0, 80))
        new = data.draw(st.one_of(TOKENS, st.text(max_size=10), st.just(text[end : end + 40] + text[begin:end])))
        text = text[:begin] + new + text[end:]
    file = tmp_path / "site.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    answer(file)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each mapping and list with each of its keys or indexes."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            pairs.append((value, key))
            pairs += places(value[key])
    return pairs


@FUZZ
@given(data=st.data())
def test_changed_tree(data: st.DataObject, tmp_path: Path, answer: Answer) -> None:
    """A right site with values replaced, keys renamed, entries removed, moved and doubled."""
    tree = copy.deepcopy(TREE)
    for _ in range(data.draw(st.integers(1, 5))):
        holders = places(tree)
        if not holders:
            break
        holder, key = data.draw(st.sampled_from(holders))
        kind = data.draw(st.sampled_from(["value", "remove", "rename", "move", "double"]))
        if kind == "value":
            holder[key] = data.draw(VALUES)
        elif kind == "remove":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[data.draw(st.text(max_size=10))] = holder.pop(key)
        elif kind == "move":
            other, at = data.draw(st.sampled_from(holders))
            other[at] = copy.deepcopy(holder[key])
        elif kind == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
    file = tmp_path / "site.yaml"
    file.write_bytes(Writer(tree).text.encode("utf-8", "surrogatepass"))
    answer(file)


MEBIBYTES = 1024
"""Most memory of the process; the files are a thousand times larger than a site."""
STUCK_SECONDS = 600
"""Processor time after which the process ends, because it will never answer."""


@pytest.mark.nightly
def test_the_largest_files_have_bounds(tmp_path: Path) -> None:
    """Megabytes of brackets, keys, errors: an answer of a page, in bounded memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * MEBIBYTES * 2**20, 2 * MEBIBYTES * 2**20))
        resource.setrlimit(resource.RLIMIT_CPU, (STUCK_SECONDS, STUCK_SECONDS + 10))

    done = subprocess.run(
        [sys.executable, str(HERE / "big_files.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * STUCK_SECONDS,
        preexec_fn=limit,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    assert len(answers) >= 40
    large = {name: answer for name, answer in answers.items() if answer["memory"] > MEBIBYTES}
    long = {name: answer for name, answer in answers.items() if answer["characters"] > 30_000}
    assert not large | long
