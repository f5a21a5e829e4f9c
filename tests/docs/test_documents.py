"""The documents say what is so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from strata.cli.main import app
from strata.site.paths import REPOSITORY

from .markdown import Block, anchors, blocks, code_spans, documents, links, missing_line, tokens
from .runner import run_blocks

DOCUMENTS = documents()
NAMES = [str(d) for d in DOCUMENTS]
PROSE_LANGUAGES = {"text", "yaml", "json", "console"}
MOST_NOT_RUN = 15
"""Blocks in all documents that no test runs; each gives the reason."""


def _blocks(where: str) -> dict[Path, list[Block]]:
    by_document = {document: [b for b in blocks(document) if b.where == where] for document in DOCUMENTS}
    return {document: chosen for document, chosen in by_document.items() if chosen}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files without what git ignores, so that a reader's steps leave no traces in it."""
    target = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name)
    return target


@pytest.mark.parametrize("document", list(_blocks("offline")), ids=str)
def test_offline_commands_do_what_is_documented(document: Path, copy: Path, tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "OS_", "KUBE"))}
    environment |= {
        "STRATA_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(copy / "src"),  # strata from the copy: it finds the repository by its own place
        "PATH": f"{programs}:{environment['PATH']}",
        "COLUMNS": "160",
        "HOME": str(tmp_path),
    }
    wrong = run_blocks(_blocks("offline")[document], copy, environment)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_block_of_commands_states_where_it_is_run(document: Path) -> None:
    list(blocks(document))  # raises where a fence states nothing
    for token in tokens(document):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "fence":
            language = token.info.split(" ")[0]
            assert language in PROSE_LANGUAGES, f"{document}:{line}: commands are in console blocks, not {language!r}"
            if language == "text":
                assert not re.search(r"^\s*(\$ |strata |scripts/|kubectl |sudo )", token.content, re.M), (
                    f"{document}:{line}: a text block with commands; make it console"
                )
        assert token.type != "code_block", f"{document}:{line}: fence it, and say what it is"


def test_few_blocks_are_not_run() -> None:
    skipped = [b for chosen in _blocks("not-run").values() for b in chosen]
    assert len(skipped) <= MOST_NOT_RUN, [f"{b.place}: {b.reason}" for b in skipped]


def test_what_ci_runs_is_in_its_script() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text()
    for chosen in _blocks("ci").values():
        for block in chosen:
            for command in block.commands:
                assert command.text.split("#")[0].strip() in script, f"{block.place}: .ci/run does not {command.text}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_command_is_good_shell(document: Path) -> None:
    for block in blocks(document):
        for command in block.commands:
            done = subprocess.run(["bash", "-n"], input=command.text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.place}: {command.text}: {done.stderr}"


def _strata_words(text: str) -> list[list[str]]:
    """Each call of strata or scripts/lab in a piece of shell, as words after the program."""
    commands = []
    for part in re.split(r"\|\||&&|[|;()`]|\$\(", text):
        words = part.replace('"', " ").replace("'", " ").split()
        for program in ("strata", "scripts/lab"):
            if program in words[:1]:
                commands.append(words[1:])
    return commands


def test_strata_commands_and_options_in_the_text_are_there() -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("strata", ["--help"], resilient_parsing=True)
    seen = 0
    for document in DOCUMENTS:
        texts = [(line, span) for line, span in code_spans(document)]
        texts += [(b.line, c.text) for b in blocks(document) for c in b.commands]
        for line, text in texts:
            for words in _strata_words(text):
                if not words or not re.fullmatch(r"[a-z]+", words[0]):
                    continue
                command = group.get_command(context, words[0])  # a service's too
                assert command is not None, f"{document}:{line}: there is no `strata {words[0]}`"
                parts = getattr(command, "commands", {})  # of a group, as `strata users`
                if parts and words[1:]:
                    part = words[1].rstrip("\\")  # list\|add in a table
                    assert part in parts, f"{document}:{line}: there is no `strata {words[0]} {part}`"
                    command = parts[part]
                known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
                options = [w.split("=")[0].rstrip("],") for w in words if re.match(r"^\[?--?[a-z]", w)]
                for option in (o.lstrip("[") for o in options):
                    assert option in known, f"{document}:{line}: `strata {words[0]}` has no option {option}"
                seen += 1
    assert seen > 50, "the search finds no commands any more"


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(document: Path) -> None:
    for line, target in links(document):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, fragment = target.partition("#")
        file = (REPOSITORY / document).parent / name if name else REPOSITORY / document
        assert file.exists(), f"{document}:{line}: {target}: there is no such file"
        if fragment:
            headings = anchors(file.resolve().relative_to(REPOSITORY))
            assert fragment in headings, f"{document}:{line}: {target}: no such heading; there are {sorted(headings)}"


def test_every_document_is_in_the_index() -> None:
    index = REPOSITORY / "docs" / "README.md"
    linked = {((index.parent) / t.partition("#")[0]).resolve() for _, t in links(index.relative_to(REPOSITORY))}
    expected = {REPOSITORY / d for d in DOCUMENTS if d.parts[0] == "docs" and "decisions" not in d.parts}
    assert expected - linked == {index}


def test_expected_lines_are_found_in_order() -> None:
    assert missing_line(("one … three", "four"), "zero\none two three\nfour\n") is None
    assert missing_line(("four", "one … three"), "one two three\nfour\n") == "one … three"
    assert missing_line(("five",), "four\n") == "five"
