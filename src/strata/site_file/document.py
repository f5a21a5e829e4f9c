"""A YAML file as plain values, with the place of each key."""

from __future__ import annotations

import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import yaml

from strata.models.key_path import KeyPath, dotted
from strata.site_file.problems import Problem, SiteError, shorten
from strata.site_file.yaml_events import Marks, Place, build

MAXIMUM_BYTES = 4 * 2**20
"""Larger files are refused: a site of 5,000 nodes takes less than 1 MiB."""


_SECRET = re.compile(r"pass(word|wd|phrase)|secret|token$|private_?key|api_?key|^value$", re.IGNORECASE)
"""Keys below which operators write secrets, though a site file has none."""
_ODD_LINE_END = re.compile("[\x85\u2028\u2029]")
HIDDEN = "(not shown)"
"""In place of a value that may be a secret: answers end in logs."""
_CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_AT_THE_BEGINNING = (
    ("while scanning a quoted scalar", "a quote is not closed", "close the quote that begins here"),
    ("while scanning a simple key", "a key has no colon with a space after it", "write key: value"),
    ("while parsing a flow", "a bracket is not closed, or a comma is missing", "close the bracket that begins here"),
)
"""What libyaml was doing when it gave up; the place where it began helps more than the one where it ended."""
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


@dataclass(frozen=True)
class Document:
    """A parsed site file.

    Args:
        file: where it was read.
        data: dicts, lists and scalars.
        marks: the place of each key and list entry.
        mistakes: errors, which YAML allows and a site file does not; `data` is without it.
    """

    file: Path
    data: dict[str, object]
    marks: Marks
    mistakes: tuple[Problem, ...] = ()

    def locate(self, path: KeyPath) -> tuple[Place, bool]:
        """Where a key is: its own place, or that of the nearest parent, and whether it is its own."""
        marks = self.marks
        for step in path:
            children = marks.children
            following = None
            if isinstance(children, dict):
                following = children.get(str(step))
            elif isinstance(children, list) and isinstance(step, int) and 0 <= step < len(children):
                following = children[step]
            if following is None:
                return marks.place, False
            marks = following
        return marks.place, True

    def value(self, path: KeyPath) -> object:
        """The value at a path.

        Raises:
            KeyError: nothing does.
        """
        current: object = self.data
        for step in path:
            if isinstance(current, dict) and str(step) in current:
                current = current[str(step)]
            elif isinstance(current, list) and isinstance(step, int) and 0 <= step < len(current):
                current = current[step]
            else:
                raise KeyError(step)
        return current

    def problem(self, path: KeyPath, why: str, fix: str) -> Problem:
        """An error at a key, with its place and value."""
        place, own = self.locate(path)
        actual = self.value(path) if own else None
        value = (HIDDEN if may_be_secret(path) else shorten(actual)) if own else None
        return Problem(self.file, place.line, place.column, dotted(path), value, why, fix)


def may_be_secret(path: KeyPath) -> bool:
    """Whether the key sounds like one with a secret in it."""
    return bool(path) and _SECRET.search(str(path[-1])) is not None


def read_document(file: Path) -> Document:
    """Reads and parses a site file.

    Raises:
        SiteError: not there, no regular file, too large, no text, no YAML, no mapping, or no mapping.
    """
    text = _read_text(file)
    if odd := _ODD_LINE_END.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        why = f"has U+{ord(odd[0]):04X}, a line end for some programs and not for others"
        raise SiteError([Problem(file, line, 1, "", None, why, "remove it, or write a usual line end")])
    try:
        tree = build(text)
    except yaml.MarkedYAMLError as error:
        raise SiteError([_syntax_problem(file, text, error)]) from None
    except yaml.YAMLError as error:
        why = f"is not YAML: {str(error).splitlines()[0]}"
        raise _whole(file, why, "write it as UTF-8 text without control characters") from None
    mistakes = [Problem(file, m.place.line, m.place.column, dotted(m.path), None, m.why, m.fix) for m in tree.mistakes]
    if tree.data is None and not mistakes:
        raise _whole(file, "is empty", "start from another site: strata new NAME --like lab")
    if not tree.complete:
        raise SiteError(mistakes)  # what is missing may be in the rest
    if not isinstance(tree.data, dict):
        why, fix, place = "is not a mapping of keys", "begin with name: … and domain: …", tree.marks.place
        raise SiteError(mistakes or [Problem(file, place.line, place.column, "", shorten(tree.data), why, fix)])
    return Document(file, tree.data, tree.marks, tuple(mistakes))


def _whole(file: Path, why: str, fix: str) -> SiteError:
    return SiteError([Problem(file, None, None, "", None, why, fix)])


def _read_text(file: Path) -> str:
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise _whole(file, "is a directory", f"name the file: {file / 'site.yaml'}")
        if not stat.S_ISREG(status.st_mode):
            raise _whole(file, "is not a regular file", "name a site.yaml")
        if status.st_size > MAXIMUM_BYTES:
            raise _whole(
                file, f"has {status.st_size:,} bytes, more than {MAXIMUM_BYTES:,}", "split it into several sites"
            )
        content = file.read_bytes()
    except FileNotFoundError:
        raise _whole(file, "does not exist", "strata new NAME --like lab writes a site file") from None
    except (OSError, ValueError) as error:
        # ValueError: a path with a NUL character
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _whole(file, f"cannot be read: {reason}", "name a readable site.yaml") from None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise _whole(file, "is UTF-16 text", "save it as UTF-8")
    if b"\0" in content[:65536]:
        raise _whole(file, "is a binary file", "name a site.yaml, a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SiteError([Problem(file, line, 1, "", None, "is not UTF-8 text", "save it as UTF-8")]) from None


def _syntax_problem(file: Path, text: str, error: yaml.MarkedYAMLError) -> Problem:
    """Where YAML ends and what would fix it.

    Args:
        file: the site file.
        text: its content.
        error: the parser's message.
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
    if odd_space := _odd_space(text, mark.line):
        line, name = odd_space
        return Problem(file, line, 1, "", None, f"is not YAML: there is a {name}", "write plain spaces")
    return Problem(file, mark.line + 1, mark.column + 1, "", None, f"is not YAML: {why}", fix)


def _odd_space(text: str, line: int) -> tuple[int, str] | None:
    """A blank that is not a space, in a line or the one above it: its line, 1-based, and its name."""
    lines = text.splitlines()
    for index in (line, line - 1):
        for character in lines[index] if 0 <= index < len(lines) else "":
            if character != " " and unicodedata.category(character) in ("Zs", "Cf"):
                return index + 1, unicodedata.name(character, "blank").lower()
    return None
