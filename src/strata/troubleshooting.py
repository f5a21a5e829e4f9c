"""Finds the entry of docs/troubleshooting.md for an error.

An entry quotes the messages that lead to it, with `…` for what differs from case to case. Messages and entries meet in
the document only; a test holds it against every error that the code raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from strata.errors import UserError
from strata.site.paths import INSTALLED, REPOSITORY

FILE = REPOSITORY / "docs" / "troubleshooting.md"
GAP = "…"
"""Replaces what differs in a quoted message."""
QUOTED = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")
"""Code in a line of Markdown; two back quotes around what has one in it."""


@dataclass(frozen=True)
class Entry:
    """One symptom.

    Args:
        title: the heading.
        anchor: of the heading, as GitHub makes it.
        messages: quoted messages that lead here.
    """

    title: str
    anchor: str
    messages: tuple[str, ...]

    @property
    def link(self) -> str:
        """Seen from the repository's root; of an installed Strata, whose files no operator looks for, in full."""
        return f"{FILE if INSTALLED else FILE.relative_to(REPOSITORY)}#{self.anchor}"


def anchor(heading: str) -> str:
    """The fragment that leads to a heading."""
    kept = "".join(c for c in heading.strip().lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


@cache
def entries(file: Path = FILE) -> tuple[Entry, ...]:
    """All entries, in the order of the document; none where it is not there."""
    result: list[Entry] = []
    title, messages = "", list[str]()
    for line in [*(file.read_text().splitlines() if file.exists() else []), "### "]:
        if line.startswith("### "):
            if title:
                result.append(Entry(title, anchor(title), tuple(messages)))
            title, messages = line.removeprefix("### ").strip(), []
        elif line.startswith("> "):
            messages += [double or single for double, single in QUOTED.findall(line)]
    return tuple(result)


@cache
def _pattern(message: str) -> re.Pattern[str]:
    parts = (re.escape(part) for part in message.split(GAP))
    return re.compile(".*?".join(parts), re.DOTALL)


def literal_length(message: str) -> int:
    """Characters of a quoted message that must be there as they are."""
    return len(message.replace(GAP, "").strip())


def entry_for(message: str) -> Entry | None:
    """The entry whose quoted message matches with the most characters; None where there is none.

    A message that is quoted with gaps at both ends is found in the middle of others, and goes before those.
    """
    matches = [
        (_anywhere(quoted), literal_length(quoted), entry)
        for entry in entries()
        for quoted in entry.messages
        if _pattern(quoted).fullmatch(message)
    ]
    return max(matches, key=lambda match: match[:2])[2] if matches else None


def _anywhere(quoted: str) -> bool:
    # one of punctuation alone would be found in most messages
    return quoted.startswith(GAP) and quoted.endswith(GAP) and any(map(str.isalpha, quoted))


def link_for(error: UserError) -> str | None:
    """Where to read on: the entry of what caused the error, else of the error itself; None where there is none.

    Args:
        error: its `see` is the anchor of an entry where its text differs too much to be quoted.
    """
    chain: list[UserError] = []
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            chain.append(cause)
        cause = cause.__cause__
    by_anchor = {entry.anchor: entry for entry in entries()}
    for problem in reversed(chain):
        entry = entry_for(problem.message)
        if problem.see in by_anchor and not (entry and any(_anywhere(quoted) for quoted in entry.messages)):
            entry = by_anchor[problem.see]
        if entry is not None:
            return entry.link
    return None
