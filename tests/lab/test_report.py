"""The picture of the running site: the page, and the terminal."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.engine.context import SiteContext
from strata.outputs import ImageOutputs
from strata.report import build_report
from strata.report.browser import browser
from strata.report.inspect import look_at
from strata.report.model import SiteReport
from strata.report.page import render_page
from strata.verify.pods import PodRequest

from .commands import strata, strata_json

Kubectl = Callable[..., str]
HOLD_SECONDS = 120
"""How long the kubelet may take to start the pod on a loaded machine."""


@pytest.fixture(scope="module")
def holder(context: SiteContext, kubectl: Kubectl, images: ImageOutputs) -> Iterator[str]:
    """A pod that holds a card; its namespace and name."""
    if context.site.cluster is None:
        pytest.skip(f"site {context.site.name} has no cluster")
    if not build_report(context).cards:
        pytest.skip(f"site {context.site.name} has no cards")
    namespace = f"strata-report-{secrets.token_hex(3)}"
    request = PodRequest(
        name="holds-a-card",
        image=images.images["pod-base"],
        command=["sleep", "600"],
        resources={"nvidia.com/gpu": "1"},
        tolerations=[{"operator": "Exists"}],
    )
    kubectl("create", "namespace", namespace)
    try:
        kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(request.manifest()))
        kubectl(
            "wait", "--namespace", namespace, "pod/holds-a-card", "--for=condition=Ready", f"--timeout={HOLD_SECONDS}s",
            timeout=HOLD_SECONDS + 30,
        )  # fmt: skip
        yield f"{namespace}/holds-a-card"
    finally:
        kubectl("delete", "namespace", namespace)


@pytest.fixture(scope="module")
def report(context: SiteContext, holder: str) -> SiteReport:
    """The picture while the pod holds its card."""
    return build_report(context)


def test_the_page_shows_every_node_and_card(report: SiteReport, holder: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_page(report))
    with browser() as window:
        for width, dark in ((1280, False), (390, False), (1280, True)):
            seen = look_at(window, file, width=width, dark=dark)
            assert not seen.problems, f"at {width} pixels{', dark' if dark else ''}"
            assert sorted(seen.nodes) == sorted(n.name for n in report.nodes)
            assert sorted(seen.cards) == sorted(c.address or c.kind for c in report.cards)
    assert holder in file.read_text()


def test_the_card_is_the_one_that_the_pod_sees(report: SiteReport, holder: str, kubectl: Kubectl) -> None:
    namespace, name = holder.split("/")
    inside = kubectl("exec", "--namespace", namespace, name, "--", "printenv", "NVIDIA_VISIBLE_DEVICES").strip()
    held = {c.address: f"{c.pod.namespace}/{c.pod.name}" for c in report.cards if c.pod}
    assert held.get(inside) == holder


def test_instances_stand_where_nova_put_them(context: SiteContext, report: SiteReport, cloud: object) -> None:
    if context.site.cloud is None:
        pytest.skip(f"site {context.site.name} has no cloud")
    wanted = {s.name: s.hypervisor_hostname for s in cloud.compute.servers(all_projects=True)}  # type: ignore[attr-defined]
    found = {n.name: p.name for p in report.places for n in p.nodes if n.kind == "instance"}
    assert found == {name: wanted[name] for name in found}


def test_status_and_report_are_one_model(context: SiteContext, report: SiteReport) -> None:
    status, told, _ = strata_json(context, "status", "--no-drift")
    assert told["site"] == context.site.name
    assert {o["object"] for o in told["objects"]} == {o.object for o in report.objects}
    assert status == (0 if told["healthy"] else 1)


def test_watch_sends_frames_down_a_pipe(context: SiteContext, holder: str) -> None:
    begin = time.monotonic()
    watch = ("--watch", "--interval", "1", "--frames", "2")
    done = strata("status", context.site_file, *watch, environment={"COLUMNS": "200"}, seconds=120)
    assert done.stdout.count(holder) == 2
    assert "\x1b" not in done.stdout
    assert time.monotonic() - begin >= 1
