"""The page of `strata report` in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.drift_model import Drift, DriftReport
from strata.layers import Layer
from strata.observe import CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, PodFacts, ServerFacts
from strata.observe.facts import ServiceFacts
from strata.observe.hosts import host_roles
from strata.report import SiteReport, build_report
from strata.report.page import render_page
from strata.roles import units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site_file.inventories import find_site
from strata_bench.browser import Browser
from strata_bench.inspect import look_at

pytestmark = pytest.mark.usefixtures("state_directory")
"""Each test has a state directory of its own."""

SITES = ("lab", "tacc", "cnaf", "nautilus", "csc")
HOSTILE = "</style><script>document.title='taken'</script><img src=//example.org/x onerror=alert(2)>"


def _page(report: SiteReport, directory: Path) -> Path:
    file = directory / f"{report.site}.html"
    file.write_text(render_page(report))
    return file


def _half_up(site: str) -> SiteReport:
    """The lab with one host gone, a card held by a pod with a hostile name, and drift."""
    context = SiteContext.load(find_site(site))
    hosts = {
        name: HostFacts(
            units=dict.fromkeys(units_of(running_roles(context.site, roles)), "active"),
            devices={"0000:10:00.0": ("10de", "1db4")} if name == "gpu-worker-1" else {},
        )
        for name, roles in host_roles(context).items()
    }
    hosts["worker-1"] = HostFacts(reason=f"ssh: {HOSTILE}")
    assert context.site.cloud is not None
    seen = Observation(
        cloud=CloudFacts(
            servers={
                i.name: ServerFacts(
                    id=i.name, status="ACTIVE", hypervisor="compute-gpu-1" if "gpu" in i.name else "compute-1"
                )
                for i in context.site.cloud.instances
            },
            hypervisors={"compute-1": "up", "compute-gpu-1": "down"},
            flavors=frozenset({"cpu.small"}),
        ),
        hosts=hosts,
        cluster=ClusterFacts(
            nodes={"control-1": "Ready", "gpu-worker-1": "Ready", "worker-1": "NodeStatusUnknown"},
            pods=(
                PodFacts(
                    uid="u", namespace="research", name=HOSTILE, node="gpu-worker-1", ready=False,
                    devices={"nvidia.com/gpu": 1},
                ),
            ),
        ),
        platform=PlatformFacts(reason="unreachable: timed out"),
        services=ServiceFacts(),
        seconds=1.0,
    )  # fmt: skip
    drift = DriftReport(
        drift=(Drift(layer=Layer.CLOUD, object="flavor cpu.small", property="vcpus", wanted="2", found=HOSTILE),)
    )
    return build_report(context, observation=seen, drift=drift)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_site_that_is_partly_up_can_be_read(window: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    report = _half_up("lab")
    seen = look_at(window, _page(report, tmp_path), width=width, dark=dark)
    assert not seen.problems
    assert sorted(seen.nodes) == sorted(n.name for n in report.nodes)
    assert sorted(seen.cards) == ["0000:10:00.0", "0000:18:00.0"]
    assert window.driver.title == "lab: degraded", "the hostile values ran no script"


@pytest.mark.parametrize("site", SITES)
def test_a_planned_site_can_be_read(site: str, window: Browser, tmp_path: Path) -> None:
    report = build_report(SiteContext.load(find_site(site)), offline=True)
    for width in (1280, 390):
        seen = look_at(window, _page(report, tmp_path), width=width)
        assert not seen.problems, f"at {width} pixels"
        assert sorted(seen.nodes) == sorted(n.name for n in report.nodes)
        cards = [c for n in report.nodes for c in n.cards] + [c for p in report.places for c in p.free]
        assert sorted(seen.cards) == sorted(c.address or c.kind for c in cards)


def test_it_can_be_printed(window: Browser, tmp_path: Path) -> None:
    window.open(_page(_half_up("lab"), tmp_path), width=1280)
    assert window.pdf().startswith(b"%PDF")


def test_the_check_itself_sees_what_is_wrong(window: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<title>bad</title><script>console.error('broken')</script><body style='color:#999;background:#aaa'>"
        "<p style='width:3000px;font-size:6px'>wide</p><div data-node='n' style='display:none'>n</div>"
        "<img src='http://127.0.0.1:9/x.png'>"
    )
    text = "\n".join(look_at(window, bad, width=390).problems)
    for expected in ("broken", "asked for", "cannot be seen", "too small", "too faint", "wider than the window"):
        assert expected in text
