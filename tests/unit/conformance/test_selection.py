"""Which specs run, and which are expected to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata_conformance import build, cluster, expected
from strata_conformance.specs import Suite, select

NAMES = [
    "[sig-apps] Job should run [Conformance]",
    "[sig-apps] Daemon set [Serial] should roll back [Conformance]",
    "[sig-network] Netpol should deny ingress",
    "[sig-network] Netpol should deny SCTP [Feature:SCTPConnectivity]",
    "[sig-storage] PersistentVolumes should mount",
]
SCTP = expected.ExpectedFailure(spec=NAMES[3], reason="no SCTP", run=False)


@pytest.mark.parametrize(
    ("suite", "focus", "serial", "parallel", "alone"),
    [
        (Suite.CONFORMANCE, None, False, [0], []),
        (Suite.CONFORMANCE, None, True, [0], [1]),
        (Suite.NETWORK_POLICIES, None, False, [2], []),
        (Suite.ALL, None, True, [0, 2], [1]),
        (Suite.ALL, "SCTP|Job", False, [0, 3], []),
    ],
)
def test_specs_of_a_run(suite: Suite, focus: str | None, serial: bool, parallel: list[int], alone: list[int]) -> None:
    selection = select(NAMES, suite, focus, serial, {SCTP.spec: SCTP})
    assert sorted(selection.parallel) == sorted(NAMES[i] for i in parallel)
    assert sorted(selection.alone) == sorted(NAMES[i] for i in alone)
    # an expected failure that is not run is run where it is named
    assert selection.left_out == ((SCTP,) if suite is not Suite.CONFORMANCE and focus is None else ())


@pytest.mark.parametrize(
    ("focus", "message", "fix"),
    [
        ("(", "--focus '\\('", "regular expression"),
        ("nothing", "no spec", "--dry-run"),
        ("Daemon", "no spec", "--serial"),
    ],
)
def test_a_focus_that_selects_nothing_is_refused(focus: str, message: str, fix: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        select(NAMES, Suite.CONFORMANCE, focus, False, {})
    assert fix in (error.value.fix or "")


def test_the_document_shows_the_expected_failures() -> None:
    table = expected.table(expected.load().values())
    assert table in (REPOSITORY / "docs/conformance.md").read_text(), (
        f"docs/conformance.md: replace the table by\n{table}"
    )


def test_an_expected_failure_must_be_a_spec() -> None:
    expected.check_names([NAMES[0]], NAMES)
    with pytest.raises(UserError, match="no spec 'renamed'"):
        expected.check_names([NAMES[0], "renamed"], NAMES)


@pytest.mark.parametrize(
    "text", ["- {spec: a}", "- {spec: a, reason: b, rerun: true}", "a: b", "[", "- {spec: a, reason: b}\n" * 2]
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "expected-failures.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"expected-failures\.yaml"):
        expected.load(file)


def node(name: str, *taints: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"taints": [{"key": key} for key in taints]} if taints else {}}


def test_tainted_nodes_are_left_alone() -> None:
    nodes = [node("a", "nvidia.com/gpu", "node.kubernetes.io/not-ready"), node("b"), node("c", "example.com/pool")]
    assert cluster.taints_of(nodes) == ("example.com/pool", "nvidia.com/gpu")


@pytest.mark.parametrize("nodes", [[], [node("gpu-1", "nvidia.com/gpu")]])
def test_a_cluster_without_an_untainted_node_is_refused(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(UserError, match="node without taints"):
        cluster.taints_of(nodes)


def test_the_directory_of_the_tests_follows_their_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path))
    before = build.tests_directory()
    assert before == build.tests_directory()
    monkeypatch.setattr(build, "_REQUIRED", "require example.invalid/other v1.0.0\n")
    assert build.tests_directory() != before


def test_the_additional_checksums_repeat_none_of_kubernetes() -> None:
    own = (Path(build.__file__).parent / "go.sum").read_text().splitlines()
    assert not set(own) & set((REPOSITORY / "tools/kubernetes/go.sum").read_text().splitlines())
    assert len(own) == len(set(own))
