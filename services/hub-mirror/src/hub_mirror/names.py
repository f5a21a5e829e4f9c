"""Names in URLs of the Hub: repositories, revisions, files. What is not of these forms is refused before it is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote_to_bytes

Kind = Literal["models", "datasets"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST_PATH = 1024
MAIN = "main"
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REFS = frozenset({"heads", "tags", "pr", "convert"})
_SHORT = 2
"""Parts of an id with a namespace."""


class InvalidName(Exception):
    """A name that cannot be; the message names it and goes to the caller."""


@dataclass(frozen=True)
class Repository:
    """A repository of the Hub.

    Args:
        kind: models or datasets.
        id: `namespace/name`, or `name` alone for some old ones of the Hub.
    """

    kind: Kind
    id: str

    @property
    def namespace(self) -> str:
        """In lower case, as the Hub compares names; empty for an id without one."""
        namespace, slash, _ = self.id.partition("/")
        return namespace.lower() if slash else ""

    @property
    def name(self) -> str:
        """Without the namespace."""
        return self.id.rpartition("/")[2]

    @property
    def api_path(self) -> str:
        """Of its description."""
        return f"/api/{self.kind}/{self.id}"

    @property
    def web_path(self) -> str:
        """That files are below."""
        return f"/{self.id}" if self.kind == "models" else f"/{self.kind}/{self.id}"


def repository(kind: Kind, parts: Sequence[str]) -> Repository:
    """The repository of an id's parts.

    Raises:
        InvalidName: they are none.
    """
    for part in parts:
        if not _PART.fullmatch(part) or ".." in part or "--" in part or part.endswith(".git"):
            raise InvalidName(f"{part[:100]!r} is not the name of a repository or its namespace")
    return Repository(kind, "/".join(parts))


def is_commit(revision: str) -> bool:
    """Whether it names a commit, whose content never changes."""
    return _COMMIT.fullmatch(revision) is not None


def checked_revision(text: str) -> str:
    """The same text.

    Raises:
        InvalidName: it is not a revision.
    """
    if not _REVISION.fullmatch(text) or ".." in text or "//" in text or text.endswith(("/", ".", ".lock")):
        raise InvalidName(f"{text[:100]!r} is not a revision")
    return text


def checked_path(text: str) -> str:
    """The same text.

    Raises:
        InvalidName: it is not the path of a file in a repository.
    """
    parts = text.split("/")
    wrong = {"", ".", "..", ".git"} & {part.lower() for part in parts}
    if wrong or len(text) > LONGEST_PATH or "\\" in text or not text.isprintable():
        raise InvalidName(f"{text[:100]!r} is not the path of a file in a repository")
    return text


def segments(raw_path: bytes) -> list[str]:
    """The parts of a URL's path, in which an encoded slash separates nothing.

    Args:
        raw_path: as it was sent.

    Raises:
        InvalidName: it is not UTF-8 text.
    """
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.partition(b"?")[0].strip(b"/").split(b"/")]
    except UnicodeDecodeError as error:
        raise InvalidName("the path is not UTF-8 text") from error


def split_id(kind: Kind, parts: Sequence[str], words: frozenset[str]) -> tuple[Repository, list[str]]:
    """The repository that a path begins with, and what follows.

    Args:
        kind: of the repository.
        parts: of the path.
        words: with which what follows begins; an id without a namespace comes right before one.

    Raises:
        InvalidName: there is no repository.
    """
    if parts and "/" in parts[0]:
        parts = [*parts[0].split("/"), *parts[1:]]
    alone = len(parts) == 1 or (parts[1] in words and not (len(parts) > _SHORT and parts[2] in words))
    length = 1 if alone else _SHORT
    return repository(kind, parts[:length]), list(parts[length:])


def take_revision(parts: Sequence[str]) -> tuple[str, list[str]]:
    """The revision that a path begins with, `refs/pr/1` too, and what follows.

    Raises:
        InvalidName: there is none.
    """
    if not parts:
        raise InvalidName("the path has no revision")
    longer = len(parts) > _SHORT and parts[0] == "refs" and parts[1] in _REFS
    length = 3 if longer else 1
    return checked_revision("/".join(parts[:length])), list(parts[length:])


def quoted(text: str) -> str:
    """One part of a URL's path."""
    return quote(text, safe="")
