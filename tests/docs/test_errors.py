"""Every error that a user may meet leads to an entry of docs/troubleshooting.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata.troubleshooting import FILE, GAP, entries, entry_for, link_for

from .markdown import anchors

FOLDERS = ("src", "lab", "bench", "ansible", "pulumi", "scripts")
FILLED = "x1"
"""In the place of a value."""


@dataclass(frozen=True)
class RaiseSite:
    """One place that makes an error: its message with gaps, and the anchor that it names."""

    place: str
    message: str
    see: str | None


def _trees() -> dict[Path, ast.Module]:
    files = [f for folder in FOLDERS for f in sorted((REPOSITORY / folder).rglob("*.py")) if ".venv" not in f.parts]
    return {f.relative_to(REPOSITORY): ast.parse(f.read_text()) for f in files}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    """A message with gaps for what is not known here."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else GAP for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return GAP


def _classes(trees: dict[Path, ast.Module]) -> dict[str, ast.ClassDef | None]:
    """UserError and all that are made of it."""
    classes: dict[str, ast.ClassDef | None] = {"UserError": None}
    definitions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := {
        node.name: node
        for node in definitions
        if node.name not in classes and any(_name(base) in classes for base in node.bases)
    }:
        classes |= more
    return classes


def _see(owner: ast.ClassDef | None) -> str | None:
    """The anchor that a class names for all its errors."""
    for node in owner.body if owner else ():
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "see" and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return None


def _keyword(call: ast.Call, name: str) -> str | None:
    values = [k.value.value for k in call.keywords if k.arg == name and isinstance(k.value, ast.Constant)]
    return str(values[0]) if values else None


def raise_sites() -> Iterator[RaiseSite]:
    """Every place in our code that makes an error for users."""
    trees = _trees()
    classes = _classes(trees)
    # a class that words its message itself is looked at there, and not where it is raised
    own = {
        name: definition
        for name, definition in classes.items()
        if definition and any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in definition.body)
    }
    plain = classes.keys() - own.keys()
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and own.get(node.name) is node:
                for call in ast.walk(node):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__" and call.args:
                        yield RaiseSite(f"{file}:{call.lineno}", _text(call.args[0]), _see(node))
            elif isinstance(node, ast.Call) and _name(node.func) in plain and node.args:
                see = _keyword(node, "see") or _see(classes[_name(node.func)])
                yield RaiseSite(f"{file}:{node.lineno}", _text(node.args[0]), see)


@pytest.fixture(scope="module")
def sites() -> list[RaiseSite]:
    """Read when a test asks: to parse all code while tests are collected would cost every worker seconds."""
    return list(raise_sites())


def test_the_search_finds_them(sites: list[RaiseSite]) -> None:
    assert len(sites) > 70
    assert {"src/strata/engine", "src/strata/site_file", "lab/src/strata_lab"} <= {
        str(Path(s.place).parent) for s in sites
    }


def test_each_error_has_an_entry(sites: list[RaiseSite]) -> None:
    documented = {entry.anchor for entry in entries()}
    wrong = [
        f"{s.place}: {FILE.name} has no entry #{s.see}" for s in sites if s.see is not None and s.see not in documented
    ]
    wrong += [
        f"{site.place}: no entry of docs/troubleshooting.md quotes `{site.message}`; add the message to an entry, or a "
        f'new entry (### heading, > `message`), or name one: UserError(…, see="anchor")'
        for site in sites
        if site.see is None and not entry_for(site.message.replace(GAP, FILLED))
    ]
    assert not wrong, "\n".join(wrong)


def test_each_entry_can_be_reached_and_links_resolve() -> None:
    headings = anchors(FILE.relative_to(REPOSITORY))
    for entry in entries():
        assert entry.anchor in headings
    assert len({e.anchor for e in entries()}) == len(entries()), "two headings have one anchor"


def test_no_entry_quotes_a_message_that_is_gone(sites: list[RaiseSite]) -> None:
    raised = [entry_for(site.message.replace(GAP, FILLED)) for site in sites]
    for entry in entries():
        for quoted in entry.messages:
            if quoted.startswith(GAP) and quoted.endswith(GAP):
                continue  # a tool's words, not ours
            assert any(candidate is entry for candidate in raised), f"{entry.title}: nothing raises `{quoted}` any more"


def test_each_quoted_message_leads_to_its_own_entry() -> None:
    """One so general that it takes another entry's messages sends users to the wrong page."""
    for entry in entries():
        for quoted in entry.messages:
            reached = entry_for(quoted.replace(GAP, FILLED))
            assert reached is entry, f"`{quoted}` of {entry.title} leads to {reached and reached.title}"


def test_an_error_shows_where_to_read_on(tmp_path: Path) -> None:
    assert link_for(UserError("site lab has no cluster")) == (
        "docs/troubleshooting.md#a-layer-is-asked-for-that-the-site-does-not-have"
    )
    file = tmp_path / "site.yaml"
    file.write_text("name: Wrong Name\n")
    with pytest.raises(SiteError) as caught:
        load_site(file)
    assert link_for(caught.value) == "docs/troubleshooting.md#the-site-file-has-errors"


def test_the_cause_is_what_is_explained() -> None:
    cause = UserError("playbook hosts: services-1: copy: No space left on device")
    outer = UserError("step hosts failed: playbook hosts: …")
    outer.__cause__ = cause
    assert link_for(outer) == "docs/troubleshooting.md#the-disk-is-full"
    assert link_for(UserError("words that nobody wrote down")) is None
