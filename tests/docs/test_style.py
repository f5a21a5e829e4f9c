"""The word list of docs/style.md: texts do without the words that it replaces."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from strata.site.paths import REPOSITORY

from .texts import texts

FOLDERS = (
    ".",
    ".ci",
    "ansible",
    "bench",
    "docs",
    "helm",
    "inventories",
    "lab",
    "pulumi",
    "services",
    "src",
    "tests",
    "tools",
)
OBJECTS = "a|an|the|it|its|them|this|their|requests|such|any|every|what|one"
CHECKED: Mapping[str, str] = {
    "as wanted": r"as wanted",
    "wanted, found": r"\bwanted\b",
    "stands (service)": r"\b(stands|stood|standing)\b",
    "stands (value, file)": r"\bmay stand\b|\bcan stand\b",
    "stands twice, is there twice": r"\bis there twice\b",
    "stand-in": r"\bstand-ins?\b",
    "hands up": r"\bhands? up\b",
    "door": r"\bdoors?\b",
    "mend": r"\bmend(s|ed|ing)?\b",
    "says, tells, told": r"\b(says|said|tells|told)\b",
    "is no …": r"(?<!there )\b(is|are) no (?!longer\b|more\b|other\b|such\b|one\b)",
    "since (reason)": r"[,;] since (?!then\b|the instance was\b|the catalogue grew\b)",
    "does not answer": rf"\b(do|does|did) not answer\b(?! ({OBJECTS})\b)",
    "settle": r"\bsettl(e|es|ed)\b",
    "lacks, lacking": r"\b(lacks|lacked|lacking)\b",
    "scarcity, room": r"\bscarcity\b",
    "at hand, to be had": r"\bbe had\b",
    "by half, half made": r"\bby half\b|\bhalf (made|written)\b",
    "anew, again": r"\banew\b",
    "goes on from there": r"\bgoe?s? on from\b",
    "again and again": r"\bagain and again\b",
    "other bits": r"\bother bits\b",
    "side by side": r"\bside by side\b",
    "mistake (site file)": r"(?<!by )\bmistakes?\b",
    "taken back (Helm)": r"\btaken back\b",
    "disturb": r"\bdisturb",
    "consent; asked for first": r"\bconsent",
    "changed by hand": r"\bchanged by hand\b",
    "left over; killed run": r"\bleft over\b",
}
"""Entry of the list → what it looks like in a text."""
NOT_CHECKED: Mapping[str, str] = {
    "asks": "a program asks an issuer, a user asks a model",
    "answers": "a response is an answer too; `does not answer` is checked",
    "proves, claim": "a claim of a volume or token; a contract test proves",
    "picture": "an image in a document is one",
    "look": "to look up",
    "card": "a board, and a model card",
    "who holds it": "a process holds a lock",
    "machine": "hosts.machines of site.yaml",
    "machines of their own": "as `machine`",
    "authority": "certificate authority",
    "takes (no) pods, closed": "a closed port",
    "take over": "a standby takes over",
    "the cloud's program": "the Pulumi program of the cloud layer",
    "leaves, is to go": "a user leaves",
    "kept": "a backup is kept for days",
    "forget": "restic forget",
    "condor submit, execute, manager": "names of HTCondor's programs",
    "notebook server": "upstream's settings have the name",
}
"""Entry of the list → what else it means, so that no search finds the wrong use only."""
EXCEPTIONS: Mapping[str, str] = {
    "src/strata/engine/run_lock.py: , since ": "the time at which a run began",
    "src/strata/shared_state/lease.py: , since ": "the time at which a run began",
}
"""File and phrase → why it stays."""


def entries() -> set[str]:
    """The left column of the list."""
    text = (REPOSITORY / "docs" / "style.md").read_text()
    rows = text.partition("## Glossary")[2].splitlines()
    return {row.split("|")[1].strip() for row in rows if row.startswith("|")} - {"not", "---"}


def test_every_entry_is_checked_or_has_a_reason() -> None:
    assert entries() == CHECKED.keys() | NOT_CHECKED.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_texts_do_without_the_words(folder: str) -> None:
    patterns = {entry: re.compile(pattern, re.IGNORECASE) for entry, pattern in CHECKED.items()}
    wrong = [
        f"{text.place}: {match[0]!r}; docs/style.md replaces {entry!r}: {' '.join(text.words.split())[:160]}"
        for text in texts(folder)
        for entry, pattern in patterns.items()
        for match in pattern.finditer(text.words)
        if f"{text.place.partition(':')[0]}: {match[0]}" not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_an_exception_is_still_needed(exception: str) -> None:
    file, _, phrase = exception.partition(": ")
    assert phrase in (REPOSITORY / file).read_text()
