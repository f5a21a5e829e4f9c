"""Reads the documents: their headings, links and blocks of commands.

A block of commands is fenced as `console`, each command after `$ `, further lines of it after `> `. Other lines are
output that must appear in this order, with `…` for what differs. The fence states where the block is run:

    ```console offline              here, in a copy of the repository with a state directory of its own
    ```console lab                  against the running lab; it must leave it as it is
    ```console ci                   by .ci/run, which installs, brings up and destroys a lab
    ```console not-run="why"        nowhere; its syntax is checked
    ```console offline exit=2       the last command ends with this status
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from strata.site.paths import REPOSITORY
from strata.troubleshooting import anchor

GAP = "…"
PLACES = ("offline", "lab", "ci", "not-run")


@dataclass(frozen=True)
class Command:
    """One command and the lines that it must print."""

    text: str
    output: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A block of commands.

    Args:
        file: the document, seen from the repository.
        line: of the fence, 1-based.
        where: offline, lab, ci or not-run.
        reason: why it is not run.
        status: exit status of its last command.
        commands: at least one.
    """

    file: Path
    line: int
    where: str
    reason: str
    status: int
    commands: tuple[Command, ...]

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    """Every document that people read, seen from the repository; generated references are not among them."""
    files = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    files += sorted((REPOSITORY / "services").glob("*/README.md"))
    return [f.relative_to(REPOSITORY) for f in files if "reference" not in f.parts]


@cache
def tokens(file: Path) -> list[Token]:
    """The document's parts."""
    return MarkdownIt("commonmark").enable("table").parse((REPOSITORY / file).read_text())


def blocks(file: Path) -> Iterator[Block]:
    """The blocks of commands of a document.

    Raises:
        ValueError: a fence that states nothing, or the wrong thing; names file and line.
    """
    if "console" not in (REPOSITORY / file).read_text():
        return  # most documents: parsing them takes a second whenever tests are collected
    for token in tokens(file):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "fence" and token.info.split(" ")[0] == "console":
            yield _block(file, line, token)


def _block(file: Path, line: int, token: Token) -> Block:
    words = shlex.split(token.info)[1:]
    options = dict(word.partition("=")[::2] for word in words)
    places = [place for place in PLACES if place in options]
    if len(places) != 1 or set(options) - {*PLACES, "exit"}:
        raise ValueError(f"{file}:{line}: a console block names one of {', '.join(PLACES)}, not {token.info!r}")
    if places[0] == "not-run" and len(options["not-run"]) < 10:
        raise ValueError(f'{file}:{line}: say why it is not run: not-run="…"')
    commands: list[Command] = []
    for text in token.content.splitlines():
        if text.startswith("$ "):
            commands.append(Command(text[2:], ()))
        elif text.startswith("> ") and commands and not commands[-1].output:
            commands[-1] = Command(f"{commands[-1].text}\n{text[2:]}", ())
        elif text.strip() and commands:
            commands[-1] = Command(commands[-1].text, (*commands[-1].output, text.rstrip()))
        elif text.strip():
            raise ValueError(f"{file}:{line}: output before the first command: {text!r}")
    if not commands:
        raise ValueError(f"{file}:{line}: no command; a command begins with `$ `")
    return Block(file, line, places[0], options.get("not-run", ""), int(options.get("exit", "0")), tuple(commands))


def missing_line(expected: tuple[str, ...], output: str) -> str | None:
    """The first expected line that the output has not, in order; None where all are there."""
    lines = iter(output.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split(GAP)))
        if not any(pattern.fullmatch(candidate.strip()) for candidate in lines):
            return line
    return None


def anchors(file: Path) -> set[str]:
    """Fragments of a document's headings."""
    parts = tokens(file)
    return {anchor(_plain(parts[index + 1])) for index, token in enumerate(parts) if token.type == "heading_open"}


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def links(file: Path) -> Iterator[tuple[int, str]]:
    """Line and target of every link and image."""
    for token in tokens(file):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None:
                yield (token.map[0] + 1 if token.map else 0), str(target)


def code_spans(file: Path) -> Iterator[tuple[int, str]]:
    """Line and content of every piece of code within a line."""
    for token in tokens(file):
        for child in token.children or []:
            if child.type == "code_inline":
                yield (token.map[0] + 1 if token.map else 0), child.content
