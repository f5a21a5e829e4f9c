"""The specs that cannot pass here, with their reasons: expected-failures.yaml, shown in docs/conformance.md."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from strata.errors import UserError

FILE = Path(__file__).parent / "expected-failures.yaml"


class ExpectedFailure(BaseModel):
    """A spec that is known to fail.

    Args:
        spec: its full name.
        reason: why it cannot pass.
        run: whether it is run all the same; one that only waits for its time limit is not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    spec: str
    reason: str
    run: bool = True


def load(file: Path = FILE) -> dict[str, ExpectedFailure]:
    """The expected failures by their specs' names.

    Raises:
        UserError: the file does not parse, or names a spec twice.
    """
    try:
        entries = TypeAdapter(list[ExpectedFailure]).validate_python(yaml.safe_load(file.read_text()) or [])
    except (ValidationError, yaml.YAMLError, OSError) as error:
        raise UserError(
            f"the expected failures in {file}: {error}",
            fix="write a list of entries with spec, reason and, if it is false, run",
        ) from None
    by_spec = {entry.spec: entry for entry in entries}
    if len(by_spec) != len(entries):
        names = [entry.spec for entry in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UserError(f"the expected failures in {file}: duplicate spec {twice[0]}", fix="remove one of the entries")
    return by_spec


def check_names(expected: Collection[str], specs: Collection[str], file: Path = FILE) -> None:
    """Checks that each expected failure is a spec of the tests.

    Raises:
        UserError: one is not.
    """
    if unknown := sorted(set(expected) - set(specs)):
        raise UserError(
            f"the expected failures in {file}: the tests have no spec {unknown[0]!r}",
            fix="copy the name from `scripts/conformance --dry-run --suite all --serial`, or remove the entry",
        )


def table(entries: Collection[ExpectedFailure]) -> str:
    """The expected failures as a Markdown table."""
    rows = [f"| {e.spec} | {e.reason}{'' if e.run else ' (not run)'} |" for e in entries]
    return "\n".join(["| spec | why it fails |", "|---|---|", *rows])
