"""Which checks apply to which site, and that a check which skips itself although the site has what it needs fails."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.verify import run
from strata.verify.plugin import CHECKS

SITES = ("lab", "campus", "metal", "tacc", "nautilus", "csc", "cnaf")
OWN_CHECKS = """
import pytest
from strata.verify.needs import CLOUD, CLUSTER, GPU_NODES, needs, role

@needs(CLUSTER)
def test_declared(site):
    assert site.cluster

@needs(CLUSTER, GPU_NODES)
def test_not_declared():
    raise AssertionError

@needs(CLUSTER)
def test_skips_itself():
    pytest.skip("no host can be reached")
"""
CLOUD_CHECKS = """
from strata.verify.needs import CLOUD, needs
pytestmark = needs(CLOUD)

def test_of_a_cloud(cloud):
    raise AssertionError
"""


def applies(check: Any, module: Any, site: Any) -> bool:
    """Whether a check runs on a site."""
    marks = [getattr(module, "pytestmark", None), *getattr(check, "pytestmark", ())]
    return all(need.declared(site) for mark in marks if mark is not None and mark.name == "needs" for need in mark.args)


def checks_of(area: str, name: str) -> set[str]:
    """The checks of an area, or of a role's folder, that run on a site."""
    role, _, own = area.rpartition("/")
    package = f"strata_roles.{role}.checks" if role else "strata.verify.checks"
    module = importlib.import_module(f"{package}.test_{own}")
    site = load_site(find_site(name))
    return {
        key.removeprefix("test_")
        for key, check in vars(module).items()
        if key.startswith("test_") and applies(check, module, site)
    }


@pytest.mark.parametrize("name", SITES)
def test_every_cluster_is_checked(name: str) -> None:
    everywhere = {"nodes_are_ready", "dns_answers_across_nodes", "tenants_are_apart", "images_come_from_the_site"}
    assert everywhere <= checks_of("cluster", name)


@pytest.mark.parametrize(
    ("name", "area", "runs"),
    [
        ("lab", "cloud", {"services_are_units", "one_card_too_many_is_refused", "aggregates_keep_kinds_apart"}),
        ("campus", "cloud", {"gpu_instances_see_their_cards_only", "cpu_instances_see_no_card"}),
        (
            "tacc",
            "cloud",
            {"one_card_too_many_is_refused", "placement_counts_the_cards_of_instances"},
        ),
        ("nautilus", "cluster", {"gpu_pod_sees_its_cards", "allocatable_cards_are_novas", "tenant_quota_refuses"}),
        ("cnaf", "cluster", {"gpu_pod_sees_its_cards", "cpu_pod_sees_no_card"}),
        ("csc", "slurm_controller/slurm", {"slurm_runs_jobs_on_every_node"}),
        ("metal", "cluster", {"datastore_is_postgresql", "pods_reach_hosts_only_for_services"}),
    ],
)
def test_what_a_site_declares_is_checked(name: str, area: str, runs: set[str]) -> None:
    assert runs <= checks_of(area, name)


@pytest.mark.parametrize(
    ("name", "area", "skipped"),
    [
        ("campus", "cloud", {"hypervisors_are_up", "services_are_units", "one_card_too_many_is_refused"}),
        ("tacc", "cloud", {"services_are_units", "killed_service_comes_back"}),
        ("tacc", "cluster", {"datastore_is_postgresql", "pods_reach_hosts_only_for_services"}),
        ("metal", "cloud", {"api_lists_its_versions", "instances_answer_on_ssh"}),
        ("metal", "cluster", {"gpu_pod_sees_its_cards", "gpu_nodes_are_marked", "tenant_quota_refuses"}),
        ("lab", "slurm_controller/slurm", {"slurm_runs_jobs_on_every_node"}),
    ],
)
def test_what_a_site_does_not_declare_is_skipped(name: str, area: str, skipped: set[str]) -> None:
    assert not skipped & checks_of(area, name)


def test_no_check_of_the_platform_skips_itself() -> None:
    assert [file.name for file in CHECKS.glob("*.py") if "pytest.skip" in file.read_text()] == []


def test_a_check_that_skips_itself_fails_and_the_summary_names_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "test_own.py").write_text(OWN_CHECKS)
    (checks / "test_above.py").write_text(CLOUD_CHECKS)
    monkeypatch.setattr(run, "check_paths", lambda _: [checks])
    paths = SimpleNamespace(root=tmp_path, logs=tmp_path, create=lambda: None)
    context: Any = SimpleNamespace(site=SimpleNamespace(name="metal"), site_file=find_site("metal"), paths=paths)
    verification = run.run_checks(context)
    by_claim = {result.claim: (result.state, result.reason) for result in verification.results}
    assert by_claim == {
        "declared": ("passed", ""),
        "not declared": ("skipped", "site metal has no host with the role gpu_node"),
        "skips itself": ("failed", "not checked, although site.yaml declares it: no host can be reached"),
        "of a cloud": ("skipped", "site metal has no cloud"),
    }
    assert not verification.passed
    printed = capsys.readouterr().out
    assert "skipped 1: site metal has no host with the role gpu_node" in printed
    assert "not checked, because the site does not have it: above" in printed
    assert run.as_json(verification)["unchecked_areas"] == ["above"]
