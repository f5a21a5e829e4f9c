"""Variables and arguments have the name of the thing, as docs/style.md asks."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator

from strata.site.paths import REPOSITORY

VAGUE = frozenset({"found", "one", "told", "wanted"})
SECOND = frozenset({"other", "two"})
"""Beside one of these, `one` is the first of a pair."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and line of each variable and argument; fields of classes are not among them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                if not isinstance(statement, ast.AnnAssign):
                    yield from bound(statement)
            continue
        yield from bound(node)


def booleans(tree: ast.AST) -> set[int]:
    """Lines that assign a comparison to `found`."""
    return {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Compare | ast.BoolOp)
    }


def vague(source: str) -> list[tuple[str, int]]:
    """Name and line of each vague variable of a module."""
    tree = ast.parse(source)
    comparisons = booleans(tree)
    pairs = {
        line
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and SECOND & {name for name, _ in bound(node)}
        for name, line in bound(node)
        if name == "one"
    }
    return [
        (name, line)
        for name, line in bound(tree)
        if name in VAGUE and not (name == "found" and line in comparisons) and not (name == "one" and line in pairs)
    ]


def test_no_variable_is_vague() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "*.py"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [REPOSITORY / name for name in listed.stdout.splitlines()]
    wrong = [
        f"{file.relative_to(REPOSITORY)}:{line}: {name}"
        for file in files
        if file.is_file()
        for name, line in vague(file.read_text())
    ]
    assert not wrong, "docs/style.md: a variable has the name of the thing\n" + "\n".join(wrong)


def test_a_vague_name_is_recognized() -> None:
    assert vague("def f(found):\n    return [one for one in found]\n") == [("found", 1), ("one", 2)]
    assert vague("class A:\n    found: str\n    def f(self):\n        told = 1\n") == [("told", 4)]
    assert vague("def f(one, other):\n    found = one == other\n    return found\n") == []
