"""Upgrades of Kubernetes are refused, or need approval, before anything changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.engine import kubernetes_version
from strata.engine.changes.disruption import Approval, ApprovalNeeded
from strata.engine.kubernetes_version import require_next_minor, upgraded_nodes, version_step
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ClusterOutputs
from strata.site.paths import SitePaths
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.toolchain import load_versions

NOW = load_versions().tools["kubelet"].version
MAJOR, MINOR = (int(part) for part in NOW.split(".")[:2])


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """metal, which has a control plane and two workers."""
    site = load_site(find_site("metal"))
    return SiteContext(site, find_site("metal"), SitePaths(site.name).create())


def runs(context: SiteContext, version: str) -> None:
    """Records the version as the last success did."""
    ClusterOutputs(api_endpoint="https://198.18.13.12:6443", kubernetes_version=version).save(context.paths)


@pytest.mark.parametrize(
    ("before", "after"), [("1.35.4", "1.35.4"), ("1.35.4", "1.35.9"), ("v1.35.4", "1.36.0"), ("1.35.4", "1.35.1")]
)
def test_the_next_minor_version_and_other_patches_are_possible(before: str, after: str) -> None:
    require_next_minor(before, after)


@pytest.mark.parametrize(
    ("before", "after", "through"),
    [("1.35.4", "1.37.0", "1.36"), ("1.35.4", "1.34.9", "1.35"), ("1.35.4", "2.0.0", "1.36")],
)
def test_a_skipped_or_older_version_is_refused(before: str, after: str, through: str) -> None:
    with pytest.raises(UserError, match=f"{after}: the cluster runs {before}") as refused:
        require_next_minor(before, after)
    assert refused.value.fix == f"check out the release of Strata with Kubernetes {through} first"


def test_a_new_site_and_an_unchanged_version_upgrade_nothing(context: SiteContext) -> None:
    assert upgraded_nodes(context) == []
    runs(context, NOW)
    assert upgraded_nodes(context) == []
    assert version_step(context, Approval()).run(Silent()).detail == "no upgrade"


def test_workers_are_drained_after_approval_only(context: SiteContext) -> None:
    """`--yes` or each by its name."""
    runs(context, f"{MAJOR}.{MINOR - 1}.9")
    with pytest.raises(ApprovalNeeded) as needed:
        version_step(context, Approval()).run(Silent())
    assert [disruption.instance for disruption in needed.value.disruptions] == ["worker-1", "worker-2"]
    assert f"worker-1 is upgraded (Kubernetes {MAJOR}.{MINOR - 1}.9 → {NOW}): drained" in needed.value.message
    assert needed.value.fix == "take the change back, or allow it: strata up metal --yes"
    assert needed.value.askable
    for approval in (Approval(everything=True), Approval(frozenset({"worker-1", "worker-2"}))):
        assert version_step(context, approval).run(Silent()).detail == "2 nodes are upgraded"


def test_a_control_plane_that_takes_pods_is_not_a_worker(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is upgraded in place."""
    runs(context, f"{MAJOR}.{MINOR - 1}.9")
    both = hosts_with("kube_control_plane", context.site, None)
    monkeypatch.setattr(kubernetes_version, "hosts_with", lambda *_: both)
    assert upgraded_nodes(context) == []
