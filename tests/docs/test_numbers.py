"""Numbers in the documents: those that count parts of the repository or of the lab are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.layers import Layer
from strata.models.cloud import Cloud
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.toolchain import load_versions
from strata_bench.suites import MOST_AGAIN

from .markdown import documents

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
PARTS = (
    *("alerts", "benchmarks", "charts", "checks", "components", "decisions", "layers", "modules", "packages"),
    *("playbooks", "programs", "roles", "services", "tests"),
)
COUNTED = re.compile(rf"\b({'|'.join(WORDS[2:])}|[0-9]+) (?:[a-z-]+ )?({'|'.join(PARTS)})\b", re.IGNORECASE)
"""What the repository has a number of, which grows."""
RECORDS = {Path("docs/benchmarks.md"), Path("docs/testing.md")}
"""Documents that record what was measured and what failed on a day, as decisions do."""


def cloud() -> Cloud:
    """The cloud of the sample site."""
    section = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml").cloud
    assert section is not None
    return section


def cards() -> int:
    """Accelerators of the lab."""
    return sum(count for hypervisor in cloud().hypervisors for count in hypervisor.accelerators.values())


def workers() -> int:
    """Processes of the first part of scripts/test."""
    match = re.search(r'part "without the lab".*--numprocesses=(\d+)', (REPOSITORY / "scripts" / "test").read_text())
    assert match is not None
    return int(match[1])


@dataclass(frozen=True)
class Number:
    """A number in a document.

    Args:
        document: its path in the repository.
        pattern: regular expression; group 1 is the number, a word or digits.
        actual: what it has to be.
    """

    document: str
    pattern: str
    actual: Callable[[], int | str]


NUMBERS = (
    Number("docs/first-site.md", r"OpenStack cloud with (\w+) hypervisors", lambda: len(cloud().hypervisors)),
    Number("docs/first-site.md", r"and (\w+) V100s", cards),
    Number("docs/first-site.md", r"(\w+)\s+instances, NFS", lambda: len(cloud().instances)),
    Number("docs/layers.md", r"A site has (\w+) layers", lambda: len(Layer)),
    Number("docs/testing.md", r"on (\w+) workers", workers),
    Number("docs/testing.md", r"More than (\d+) failures", lambda: MOST_AGAIN),
    Number("README.md", r"the (\w+) Pulumi programs", lambda: len(list(REPOSITORY.glob("pulumi/*/Pulumi.yaml")))),
    Number("README.md", r"OpenStack ([\d.]+) ", lambda: load_versions().openstack),
    Number("README.md", r"Kubernetes (\d+\.\d+) ", lambda: load_versions().tools["kubectl"].version.rpartition(".")[0]),
)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number.document}: {number.pattern}")
def test_a_number_is_what_it_counts(number: Number) -> None:
    match = re.search(number.pattern, (REPOSITORY / number.document).read_text())
    assert match is not None, f"{number.document} no longer has {number.pattern!r}: remove it from NUMBERS"
    actual = number.actual()
    assert match[1] in ({WORDS[actual], str(actual)} if isinstance(actual, int) else {actual})


@pytest.mark.parametrize(
    "document",
    [document for document in documents() if "decisions" not in document.parts and document not in RECORDS],
    ids=str,
)
def test_no_other_number_counts_parts_of_the_repository(document: Path) -> None:
    text = (REPOSITORY / document).read_text()
    compared = [match for n in NUMBERS if n.document == str(document) for match in re.finditer(n.pattern, text)]
    wrong = [
        f"{document}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: leave the number out, or add to NUMBERS"
        for match in COUNTED.finditer(text)
        if not any(known.start() <= match.start() < known.end() for known in compared)
    ]
    assert not wrong, "\n".join(wrong)
