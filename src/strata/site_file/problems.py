"""Errors in a site file."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError

MAXIMUM = 1000
"""Problems of one kind that are collected; a file with more is not a site file with errors but something else."""
SHOWN = 50
"""Problems that a message lists before it only counts."""
_USER = re.compile(r"//[^/@]*@")
"""User and password of a URL."""
SHOWN_VALUE = 80
"""Characters of a value that a message repeats."""


@dataclass(frozen=True)
class Problem:
    """One error.

    Args:
        file: where it is.
        line: 1-based; None where the whole file is meant.
        column: 1-based.
        key: dotted path of the key, "" for the whole file.
        value: the one there, shortened; None where there is none.
        why: what is wrong.
        fix: what would be right.
    """

    file: Path
    line: int | None
    column: int | None
    key: str
    value: str | None
    why: str
    fix: str

    def __post_init__(self) -> None:
        for name in ("why", "fix"):  # they repeat words of the file, which may hold anything
            object.__setattr__(self, name, printable(getattr(self, name)))

    @property
    def text(self) -> str:
        """Place, key, value and reason on one line."""
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}:{self.column}"
        value = "" if self.value is None else f" {self.value}"
        subject = f"{self.key}:{value}" if self.key else ""
        return f"{place}: {subject}{' — ' if subject else ''}{self.why}"

    def __str__(self) -> str:
        return f"{self.text}\n    fix: {self.fix}"


class SiteError(UserError):
    """A site file with errors, all of them.

    Args:
        problems: at least one.
    """

    see = "the-site-file-has-errors"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        if count == 1:
            super().__init__(self.problems[0].text, fix=self.problems[0].fix)
            return
        number = f"{count} or more" if count >= MAXIMUM else str(count)
        lines = [f"{self.problems[0].file}: {number} errors"]
        lines += [str(p) for p in self.problems[:SHOWN]]
        if count > SHOWN:
            lines.append(f"… and {count - SHOWN} more")
        super().__init__("\n".join(lines), fix="correct the file, then run the command again")


def printable(text: str) -> str:
    """A text with escapes in place of what a terminal would obey, or not show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shorten(value: object) -> str:
    """A value on one line, cut where it is long."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list | tuple):
        return "[…]" if value else "[]"
    if value is None:
        return "(empty)"
    if isinstance(value, bool):
        return "true" if value else "false"
    # a little more than is shown: repr of a value of megabytes would take its time
    text = repr(_USER.sub("//…@", value[: 2 * SHOWN_VALUE])) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


def similar(word: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, None where none is near."""
    by_lower = {choice.lower().replace("-", "_"): choice for choice in choices}
    matches = difflib.get_close_matches(word[:100].lower().replace("-", "_"), list(by_lower), n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggestion(word: str, choices: Sequence[str], noun: str) -> str:
    """The fix for a word that is none of the choices."""
    if (match := similar(word, choices)) is not None:
        odd = next((c for c in word[:100] if not c.isascii()), None)
        look_alike = f" it has U+{ord(odd):04X} ({unicodedata.name(odd, 'no letter').lower()})" if odd else ""
        return f"did you mean {match}?{look_alike}"
    if not choices:
        return f"declare it; there are no {noun}"
    listed = ", ".join(choices[:20]) + (", …" if len(choices) > 20 else "")
    return f"one of the {noun}: {listed}"
