"""Files that are not site: each answered with its place and a fix, never with a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata.site_file.document import MAXIMUM_BYTES
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.problems import Problem, SiteError

Reader = Callable[[Path], Sequence[Problem]]
LAB = (REPOSITORY / "inventories" / "lab" / "site.yaml").read_text()

BAD: dict[str, tuple[bytes, int | None, str]] = {
    "empty": (b"", None, "is empty"),
    "comment only": (b"# nothing\n", None, "is empty"),
    "scalar": (b"just text\n", 1, "not a mapping"),
    "list": (b"- a\n", 1, "not a mapping"),
    "null": (b"~\n", None, "is empty"),
    "binary": (b"\x7fELF\x00\x01", None, "binary"),
    "latin-1": (b"name: lab\ndomain: caf\xe9.org\n", 2, "UTF-8"),
    "control character": (b"name: \x07\n", None, "not YAML"),
    "open bracket": (b"name: [a,\n", 2, "not YAML"),
    "tab": (b"cloud:\n\tname: x\n", 2, "not YAML"),
    "colon in value": (b"name: a: b\n", 1, "not YAML"),
    "key twice": (b"name: a\ndomain: a.b\nname: c\n", 3, "duplicate key, first in line 1"),
    "two documents": (b"name: a\n---\nname: b\n", 2, "second document"),
    "alias": (b"name: &n a\ndomain: *n\n", 2, "alias"),
    "undefined alias": (b"name: *n\n", 1, "alias"),
    "merge key": (b"<<: {name: a}\nname: a\n", 1, "not a known key"),
    "python tag": (b"name: !!python/object/apply:os.system [x]\n", 1, "tag"),
    "key that is a list": (b"? [a]\n: b\n", 1, "as a key"),
    "deep flow": (b"a: " + b"[" * 100_000, 1, "nested deeper"),
    "deep block": (b"- " * 50_000, 1, "nested deeper"),
    "deep mapping": (b"\n".join(b" " * i + b"a:" for i in range(500)), 33, "nested deeper"),
    "huge": (b"#" * (MAXIMUM_BYTES + 1), None, "bytes, more than"),
    "long scalar": (b"name: " + b"x" * 1_000_000, 1, "RFC 1123"),
    "huge integer": (b"name: " + b"9" * 10_000, 1, "must be text"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(tmp_path: Path, case: str) -> None:
    content, line, why = BAD[case]
    file = tmp_path / "site.yaml"
    file.write_bytes(content)
    with pytest.raises(SiteError) as caught:
        load_site(file)
    problems = [p for p in caught.value.problems if why in p.why]
    assert problems, str(caught.value)
    assert problems[0].line == line
    assert all(p.fix and p.file == file for p in caught.value.problems)
    assert len(str(caught.value)) < 20_000


def test_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    file = tmp_path / "site.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(SiteError) as caught:
        load_site(file)
    assert any("alias *a" in p.why and p.line == 2 for p in caught.value.problems)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="does not exist"):
        load_site(tmp_path / "none.yaml")


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(SiteError) as caught:
        load_site(tmp_path)
    assert "is a directory" in caught.value.problems[0].why
    assert "site.yaml" in caught.value.problems[0].fix


def test_named_pipe_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "site.yaml"
    os.mkfifo(pipe)
    with pytest.raises(SiteError, match="not a regular file"):
        load_site(pipe)


def test_path_with_nul_and_long_path() -> None:
    with pytest.raises(SiteError):
        load_site(Path("a\0b"))
    with pytest.raises(SiteError):
        load_site(Path("x" * 5000))


def test_byte_order_mark_is_ignored(site_file: Callable[..., Path]) -> None:
    file = site_file()
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load_site(file).name == "lab"


def test_yaml_12_scalars(site_file: Callable[..., Path]) -> None:
    """`no` is a name, not false, as in the YAML that editors check."""
    tenants = [(f"{at}, tenants: [research]", f"{at}, tenants: [no]") for at in ("cpu: 1", "accelerators: {v100: 1}")]
    names = ("{name: research, quota", "{name: no, quota")
    file = site_file(names, *tenants, ("    object_storage: {}\n", ""))
    assert load_site(file).platform.tenants[0].name == "no"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mangled_sites_raise_only_site_errors(tmp_path: Path, problems_of: Reader, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(LAB) - 1))
    removed = data.draw(st.integers(0, 60))
    inserted = data.draw(
        st.one_of(st.text(max_size=20), st.sampled_from(["{", "]", ": ", "\n- ", "&a ", "*a", "~", "0", "''"]))
    )
    file = tmp_path / "site.yaml"
    file.write_text(LAB[:position] + inserted + LAB[position + removed :], encoding="utf-8", errors="replace")
    problems = problems_of(file)
    assert all(p.why and p.fix for p in problems)


yaml_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
SECTIONS = ("name", "domain", "cloud", "hosts", "cluster", "platform", "secrets")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=yaml_values, section=st.sampled_from(SECTIONS))
def test_any_value_in_any_section(tmp_path: Path, problems_of: Reader, value: object, section: str) -> None:
    content = yaml.safe_load(LAB)
    content[section] = value
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    problems_of(file)  # raises nothing but SiteError


@pytest.mark.parametrize(("name", "meant"), [("labb", "lab"), ("nautilius", "nautilus"), ("TACC", "tacc")])
def test_unknown_site_names_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        find_site(name)
    assert caught.value.fix == f"did you mean {meant}?"


def test_site_by_name_file_and_directory() -> None:
    by_name = find_site("lab")
    assert find_site(by_name) == by_name
    assert find_site(by_name.parent) == by_name
