"""The specs of Kubernetes' tests: their names, and which of them belong to a run."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from strata.errors import UserError
from strata_conformance.build import TESTS
from strata_conformance.expected import ExpectedFailure
from strata_conformance.results import spec_name

_LIST_SECONDS = 300


class Suite(StrEnum):
    """Which specs, by their names."""

    CONFORMANCE = "conformance"
    NETWORK_POLICIES = "network-policies"
    ALL = "all"


PATTERNS = {
    Suite.CONFORMANCE: r"\[Conformance\]",
    Suite.NETWORK_POLICIES: "Netpol|NetworkPolicy",
    Suite.ALL: r"\[Conformance\]|Netpol|NetworkPolicy",
}
_ALONE = re.compile(r"\[Serial\]|\[Disruptive\]")


@dataclass(frozen=True)
class Selection:
    """The specs of one run.

    Args:
        parallel: may run beside others.
        alone: run one at a time, after the others.
        left_out: expected failures that are not run.
    """

    parallel: tuple[str, ...]
    alone: tuple[str, ...]
    left_out: tuple[ExpectedFailure, ...]

    @property
    def specs(self) -> tuple[str, ...]:
        """All that run."""
        return (*self.parallel, *self.alone)


def select(
    names: Sequence[str], suite: Suite, focus: str | None, serial: bool, expected: Mapping[str, ExpectedFailure]
) -> Selection:
    """Chooses specs.

    Args:
        names: all there are.
        suite: which.
        focus: regular expression: only those whose names it matches, also such as are left out otherwise.
        serial: also those that must not run beside others.
        expected: expected failures by name.

    Raises:
        UserError: the regular expression is wrong, or nothing is left to run.
    """
    try:
        focused = re.compile(focus or "")
    except re.error as error:
        raise UserError(f"--focus {focus!r}: {error}", fix="give a regular expression") from None
    suite_pattern = re.compile(PATTERNS[suite])
    selected = [name for name in sorted(set(names)) if suite_pattern.search(name) and focused.search(name)]
    left_out = [] if focus else [expected[name] for name in selected if name in expected and not expected[name].run]
    skipped = {failure.spec for failure in left_out}
    parallel = tuple(name for name in selected if name not in skipped and not _ALONE.search(name))
    alone = tuple(name for name in selected if name not in skipped and _ALONE.search(name))
    if not (parallel or (serial and alone)):
        fix = "add --serial" if alone else "see `scripts/conformance --dry-run` for the names of the specs"
        raise UserError(f"suite {suite}: no spec matches --focus {focus!r}", fix=fix)
    return Selection(parallel, alone if serial else (), tuple(left_out))


def list_specs(tests: Path, environment: Mapping[str, str]) -> list[str]:
    """Names of all specs; asked of the tests once, no cluster is needed.

    Args:
        tests: what `ensure_tests` returned.
        environment: of the tests.

    Raises:
        UserError: the test binary does not run.
    """
    kept = tests / "specs.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="strata-conformance-") as directory:
            report = Path(directory) / "report.json"
            done = subprocess.run(
                [tests / TESTS, "--provider=skeleton", "--ginkgo.dry-run", f"--ginkgo.json-report={report}"],
                env=dict(environment),
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=_LIST_SECONDS,
                check=False,
            )
            if not report.exists():
                raise UserError(
                    f"the tests' binary does not run: {(done.stderr or done.stdout).strip()[-300:]}",
                    fix=f"rm -r {tests}, and run again",
                )
            reports = [r for suite in json.loads(report.read_text()) for r in suite["SpecReports"] or []]
        names = [spec_name(r) for r in reports if r["LeafNodeType"] == "It"]
        partial = kept.with_suffix(".part")
        partial.write_text(json.dumps(names))
        partial.rename(kept)
    return list(map(str, json.loads(kept.read_text())))
