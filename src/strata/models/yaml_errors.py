"""What to do about a file that is not YAML."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import yaml

from strata.models.problems import Problem

_CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_AT_THE_BEGINNING = (
    ("while scanning a quoted scalar", "a quote is not closed", "close the quote that begins here"),
    ("while scanning a simple key", "a key has no colon with a space after it", "write key: value"),
    ("while parsing a flow", "a bracket is not closed, or a comma is missing", "close the bracket that begins here"),
)
"""What libyaml was doing when it gave up; the place where it began says more than that where it ended."""
_FIXES = (
    ("tab character", "indent with spaces, not tabs"),
    ("cannot start any token", "indent with spaces, not tabs, and put values with special characters in quotes"),
    ("alphabetic or numeric", "put a value that begins with * or & in quotes"),
    ("alias", "write the value out; site files have no anchors and aliases"),
    ("mapping values", "indent it as its neighbours; put a value that contains a colon in quotes"),
    ("'-' indicator", "indent it as its neighbours"),
    ("block end", "indent it as its neighbours"),
    ("document start", "one site per file: remove the lines --- and ..., and what is not key: value"),
)
_GENERAL = "check indentation, colons, quotes and brackets here and in the line above"


def syntax_problem(file: Path, text: str, error: yaml.MarkedYAMLError) -> Problem:
    """Where YAML ends and what would mend it.

    Args:
        file: the site file.
        text: its content.
        error: what the parser says.
    """
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        return Problem(
            file, line, 1, "", None, "has the marks of a merge conflict", "choose one side, remove the marks"
        )
    mark = error.problem_mark or error.context_mark
    why, fix = str(error.problem or error.context), _GENERAL
    for context, reason, advice in _AT_THE_BEGINNING:
        if error.context_mark is not None and str(error.context).startswith(context) and "tab" not in why:
            mark, why, fix = error.context_mark, reason, advice
            break
    else:
        fix = next((advice for word, advice in _FIXES if word in why), _GENERAL)
    if mark is None:
        return Problem(file, None, None, "", None, f"is not YAML: {why}", fix)
    if found := _odd_space(text, mark.line):
        line, name = found
        return Problem(file, line, 1, "", None, f"is not YAML: there is a {name}", "write plain spaces")
    return Problem(file, mark.line + 1, mark.column + 1, "", None, f"is not YAML: {why}", fix)


def _odd_space(text: str, line: int) -> tuple[int, str] | None:
    """A blank that is no space, in a line or the one above it: its line, 1-based, and its name."""
    lines = text.splitlines()
    for index in (line, line - 1):
        for character in lines[index] if 0 <= index < len(lines) else "":
            if character != " " and unicodedata.category(character) in ("Zs", "Cf"):
                return index + 1, unicodedata.name(character, "blank").lower()
    return None
