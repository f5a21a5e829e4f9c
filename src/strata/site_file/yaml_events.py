"""From YAML events to plain values, in one pass.

Not with yaml's composer: it is recursive (deep nesting ends the process), follows aliases, accepts duplicate keys
and reads YAML 1.1, where `no` is false and 1:30 is 90. Here scalars are those of YAML 1.2's core schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

from strata.models.key_path import KeyPath

MAXIMUM_DEPTH = 32
"""Levels of nesting; the model has ten."""
MAXIMUM_VALUES = 200_000
"""Keys, values, lists and mappings of a file; a site of 5,000 nodes has 75,000. Without a limit, each wrong one of a
million costs a kilobyte and 15 microseconds."""
MAXIMUM_MISTAKES = 1000
"""After so many, reading ends."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
"""Every other number of YAML 1.2's core schema; editors take it for one, so it is not text here either."""
_DIGITS = 400
"""Digits of a number that are read; a longer one is out of every range."""
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class WrittenNumber(float):
    """A number that is not a plain integer: 22.10, 1e3, 010, 0x10; answers show it as it was written.

    No key takes one, so what it is worth does not matter: 010 is 8 for some parsers and 10 for others.
    """

    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        number = super().__new__(cls, "nan")
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, 1-based."""

    line: int
    column: int


@dataclass(slots=True)
class Marks:
    """The place of a value (of its key, in a mapping) and of what is in it."""

    place: Place
    children: dict[str, Marks] | list[Marks] | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """What YAML allows and a site file does not."""

    path: KeyPath
    place: Place
    why: str
    fix: str


@dataclass(slots=True)
class Tree:
    """The result."""

    data: object = None
    marks: Marks = field(default_factory=lambda: Marks(Place(1, 1)))
    mistakes: list[Mistake] = field(default_factory=list)
    complete: bool = True
    """Whether the file was read to its end."""


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    data: dict[str, object] | list[object]
    marks: Marks
    path: KeyPath
    key: str | None = None
    key_place: Place | None = None
    waits_for_key: bool = False


def build(text: str) -> Tree:
    """Parses one YAML document.

    Raises:
        yaml.YAMLError: not YAML.
    """
    parser = yaml.CSafeLoader(text)
    try:
        return _Builder().run(parser)
    finally:
        parser.dispose()


class _Builder:
    def __init__(self) -> None:
        self._tree = Tree()
        self._stack: list[_Open] = []

    def run(self, parser: yaml.CSafeLoader) -> Tree:
        documents = values = 0
        while parser.check_event() and len(self._tree.mistakes) < MAXIMUM_MISTAKES:
            event = parser.get_event()
            assert event is not None  # check_event has checked that there is one
            values += not isinstance(event, yaml.CollectionEndEvent)
            if values > MAXIMUM_VALUES:
                self._stack.clear()
                self._mistake(event, f"has more than {MAXIMUM_VALUES:,} keys and values", "split it into several sites")
                self._tree.complete = False
                break
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(self._stack) >= MAXIMUM_DEPTH:
                    self._mistake(event, f"is nested deeper than {MAXIMUM_DEPTH} levels", "a site file has at most ten")
                    self._tree.complete = False
                    break
                self._open(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._stack.pop()
            elif isinstance(event, yaml.AliasEvent):
                anchor = str(event.anchor)[:80]
                self._mistake(event, f"uses the alias *{anchor}; site files have none", "write the value out")
                self._put(event, None, None)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._stack.clear()
                    self._mistake(event, "begins a second document", "one site per file: remove the line ---")
                    self._tree.complete = False
                    break
        self._tree.complete &= len(self._tree.mistakes) < MAXIMUM_MISTAKES
        return self._tree

    def _path(self) -> KeyPath:
        if not self._stack:
            return ()
        top = self._stack[-1]
        if isinstance(top.data, list):
            return (*top.path, len(top.data))
        return top.path if top.key is None else (*top.path, top.key)

    def _mistake(self, event: yaml.Event, why: str, fix: str) -> None:
        self._tree.mistakes.append(Mistake(self._path(), _place(event), why, fix))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if event.tag is not None and event.tag != "!":
            fix = "text in quotes, other values as they are, without a tag; secrets are declared below secrets:"
            self._mistake(event, f"has the tag {shown_tag(event.tag)}", fix)
        top = self._stack[-1] if self._stack else None
        if top is not None and top.waits_for_key:
            key = event.value
            assert isinstance(top.data, dict)
            if key in top.data:
                assert isinstance(top.marks.children, dict)
                first = top.marks.children[key].place.line
                top.key = key
                self._mistake(event, f"duplicate key, first in line {first}", "remove one of them")
            top.key, top.key_place, top.waits_for_key = key, _place(event), False
            return
        value = event.value if event.style is not None and event.style != "" else _plain(event.value)
        self._put(event, value, None)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag is not None and event.tag != "!":
            self._mistake(event, f"has the tag {shown_tag(event.tag)}", "write a plain list or mapping")
        top = self._stack[-1] if self._stack else None
        if top is not None and top.waits_for_key:
            fix = "write key: value; a site file has no templates such as {{ … }}"
            self._mistake(event, "has a list or mapping as a key", fix)
        mapping = isinstance(event, yaml.MappingStartEvent)
        data: dict[str, object] | list[object] = {} if mapping else []
        children: dict[str, Marks] | list[Marks] = {} if mapping else []
        path = self._path()
        marks = self._put(event, data, children)
        self._stack.append(_Open(data, marks, path, waits_for_key=mapping))

    def _put(self, event: yaml.Event, value: object, children: dict[str, Marks] | list[Marks] | None) -> Marks:
        """Adds a value to the innermost open list or mapping."""
        marks = Marks(_place(event), children)
        if not self._stack:
            self._tree.data, self._tree.marks = value, marks
            return marks
        top = self._stack[-1]
        if isinstance(top.data, list):
            assert isinstance(top.marks.children, list)
            top.data.append(value)
            top.marks.children.append(marks)
        elif top.waits_for_key:  # a key that is not text; already reported
            top.key, top.key_place, top.waits_for_key = "?", marks.place, False
        else:
            assert isinstance(top.marks.children, dict)
            assert top.key is not None
            marks.place = top.key_place or marks.place
            top.data.setdefault(top.key, value)
            top.marks.children.setdefault(top.key, marks)
            top.key, top.waits_for_key = None, True
        return marks


def shown_tag(tag: str) -> str:
    """A tag as it was written, on one line."""
    return tag.replace("tag:yaml.org,2002:", "!!")[:80].encode("ascii", "backslashreplace").decode()


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    assert mark is not None  # the parser of a text always sets it
    return Place(mark.line + 1, mark.column + 1)


def _plain(text: str) -> object:
    """Value of a scalar without quotes."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text[:_DIGITS])
    if _NUMBER.fullmatch(text):
        return WrittenNumber(text)
    return text
