"""Reads the texts of the repository: docstrings, comments, messages, names of tests, documents, and texts in YAML."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.site.paths import REPOSITORY

ARGUMENT = re.compile(r"^\s*\*{0,2}\w+:", re.MULTILINE)
"""The name of an argument in a docstring."""
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\([^)]*\)")
YAML_TEXT = re.compile(
    r"(?:^|\s)#\s(.+)|^\s*(?:- )?(?:name|description|short_description|msg|fail_msg|summary|why|fix):(.+)"
)
GENERATED = ("docs/reference/", "docs/style.md")
"""What is made from other texts, and the list of words itself."""


@dataclass(frozen=True)
class Text:
    """A text that people read.

    Args:
        place: file, seen from the repository, and line.
        words: the text, without code in backticks.
    """

    place: str
    words: str


def texts(folder: str) -> Iterator[Text]:
    """The texts of a folder's files that git knows.

    Args:
        folder: below the repository; "." for the files at its top.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        file = Path(name)
        if name.startswith(GENERATED) or (folder == "." and len(file.parts) > 1) or not (REPOSITORY / file).is_file():
            continue
        read = {".py": _python, ".md": _markdown, ".yaml": _yaml, ".yml": _yaml}.get(file.suffix)
        if read is not None:
            for line, words in read((REPOSITORY / file).read_text(errors="replace"), is_test(file)):
                yield Text(f"{name}:{line}", CODE.sub("…", words))


def is_test(file: Path) -> bool:
    """Whether a file is of tests or measurements: its strings are also programs, and messages of other programs."""
    return file.parts[0] in ("tests", "bench") or not {"tests", "checks"}.isdisjoint(file.parts)


def _python(source: str, test: bool) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    apart: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            apart.add(id(node.value))
            yield node.lineno, ARGUMENT.sub("", node.value.value)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.JoinedStr):
            apart.update(id(part) for part in node.values)
            if not test:
                yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    for node in ast.walk(tree):
        # a string of several lines is a program for another one, or a template
        if test or not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in apart:
            continue
        if " " in node.value and "\n" not in node.value.strip():
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _markdown(source: str, test: bool) -> Iterator[tuple[int, str]]:
    code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, LINK.sub("]", line)


def _yaml(source: str, test: bool) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        if match := YAML_TEXT.search(line):
            yield number, match[1] or match[2]
