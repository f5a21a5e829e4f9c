"""What the picture of a site states."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from strata.drift_model import Drift, DriftReport
from strata.layers import Layer
from strata.models.accelerator_catalogue import CATALOGUE
from strata.observe import ClusterFacts, HostFacts, Observation, PodFacts, nothing_seen
from strata.observe.hosts import parse_answer
from strata.report import SiteReport, build_report
from strata.report.allocation import node_cards
from strata.report.model import State
from strata.report.page import render_page
from strata.roles import DIRECTORY, roles, roles_of, units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

See = Callable[..., Observation]
HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>{{ 7*7 }}"
CHECKPOINT = {
    "Data": {
        "PodDeviceEntries": [
            {"PodUID": "uid-1", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ["0000:10:00.0"]}},
            {"PodUID": "uid-2", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": ["0000:18:00.0"]}},
        ]
    }
}


class _Page(HTMLParser):
    """Elements, and everything that would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "data", "poster", "srcset") and not (value or "").startswith(("#", "data:")):
                self.loaded.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.loaded.append(f"{tag} {name}")


def test_a_running_site_is_ok(context: SiteContext, running: See) -> None:
    report = build_report(context, observation=running())
    assert report.state is State.GOOD
    assert report.healthy
    assert {(p.name, tuple(n.name for n in p.nodes)) for p in report.places} == {
        ("compute-1", ("services-1", "control-1", "worker-1")),
        ("compute-gpu-1", ("gpu-worker-1",)),
    }


def test_each_card_is_there_once_with_its_holders(context: SiteContext, running: See) -> None:
    report = build_report(context, observation=running("train-1"))
    cards = {(c.address, c.node, c.pod.name if c.pod else None) for c in report.cards}
    assert cards == {("0000:10:00.0", "gpu-worker-1", "train-1"), ("0000:18:00.0", None, None)}
    idle = build_report(context, observation=running())
    assert [c.pod for c in idle.cards] == [None, None]


def test_a_stopped_unit_makes_its_layer_and_node_partial(context: SiteContext, running: See) -> None:
    seen = running()
    broken = seen.hosts["services-1"]
    units = dict(broken.units) | {"kine": "failed"}
    hosts = dict(seen.hosts) | {"services-1": HostFacts(units=units)}
    report = build_report(context, observation=seen.model_copy(update={"hosts": hosts}))
    assert report.state is State.PARTIAL
    assert not report.healthy
    assert {layer.layer: layer.state for layer in report.layers}[Layer.HOSTS] is State.PARTIAL
    assert {n.name: n.state for n in report.nodes}["services-1"] is State.PARTIAL
    assert "kine: failed" in render_page(report)


def test_units_of_roles_that_come_with_others_are_watched(context: SiteContext, running: See) -> None:
    """Names are those of the unit files that the roles write."""
    nodes = {n.name: {u.name for u in n.units} for n in build_report(context, observation=running()).nodes}
    everywhere = units_of(name for name, role in roles().items() if role.runs_on == "all")
    of_nodes = {"kubelet", "containerd", "pod-network", "network-policies", *everywhere}
    assert nodes["worker-1"] == nodes["control-1"] == of_nodes
    assert "containerd" not in nodes["services-1"]
    assert nodes["services-1"] >= set(everywhere) > set()
    for unit in ("pod-network", "network-policies"):
        assert (DIRECTORY / "pod_network" / "templates" / f"{unit}.service.j2").exists()

    seen = running()
    units = dict(seen.hosts["worker-1"].units) | {"network-policies": "failed"}
    broken = seen.model_copy(update={"hosts": dict(seen.hosts) | {"worker-1": HostFacts(units=units)}})
    assert not build_report(context, observation=broken).healthy


def test_units_of_another_installers_nodes_are_not_known() -> None:
    site = load_site(REPOSITORY / "inventories" / "nautilus" / "site.yaml")
    assert site.cluster is not None
    assert site.cluster.installer == "kubespray"
    names = running_roles(site, ("kube_node",))
    assert names[0] == "kube_node"
    assert {*names[1:]} == {name for name, role in roles().items() if role.runs_on == "all" and not role.when}
    assert "pod_network" in roles_of(("kube_node",)), "what comes with a node elsewhere"
    assert "pod_network" not in names


def test_a_site_that_is_down_reports_it_and_keeps_its_nodes(context: SiteContext, running: See) -> None:
    running()  # the outputs of a site that was up
    report = build_report(context, observation=nothing_seen(context))
    assert report.state is State.DOWN
    assert len(report.nodes) == 4
    assert all(n.state is State.DOWN for n in report.nodes)
    assert len(report.cards) == 2, "the hypervisor's, none of them twice"


def test_a_cluster_that_does_not_respond_is_reported(context: SiteContext, running: See) -> None:
    seen = running().model_copy(update={"cluster": ClusterFacts(reason="unreachable: connection refused")})
    report = build_report(context, observation=seen)
    assert {layer.layer: layer.state for layer in report.layers}[Layer.CLUSTER] is State.DOWN
    assert "unreachable: connection refused" in render_page(report)


@pytest.mark.parametrize("site", ["lab", "tacc", "cnaf", "nautilus", "csc"])
def test_a_site_that_was_never_up_shows_what_would_be(state_directory: Path, site: str) -> None:
    context = SiteContext.load(find_site(site))
    report = build_report(context, offline=True)
    assert report.state is State.PLANNED
    cloud, machines = context.site.cloud, context.site.hosts.machines
    expected = sum(sum(h.accelerators.values()) for h in cloud.hypervisors) if cloud else 0
    expected += sum(sum(m.accelerators.values()) for m in machines)
    assert len(report.cards) == expected
    assert {n.name for n in report.nodes} == {i.name for i in (cloud.instances if cloud else ())} | {
        m.name for m in machines
    }
    page = render_page(report)
    assert all(f'data-node="{n.name}"' in page for n in report.nodes)


def test_drift_is_in_the_picture(context: SiteContext, running: See) -> None:
    drift = DriftReport(
        drift=(Drift(layer=Layer.CLOUD, object="flavor cpu.small", property="vcpus", wanted="2", found="3"),),
        unreachable={Layer.PLATFORM: "helm does not respond"},
        seconds=2.0,
    )
    report = build_report(context, observation=running(), drift=drift)
    assert not report.healthy
    assert report.state is State.PARTIAL
    page = render_page(report)
    assert "flavor cpu.small" in page
    assert "platform could not be checked: helm does not respond" in page


def test_every_value_is_escaped(context: SiteContext, running: See) -> None:
    drift = DriftReport(
        drift=(Drift(layer=Layer.CLOUD, object=HOSTILE, property=HOSTILE, wanted=HOSTILE, found=HOSTILE),),
        unreachable={Layer.HOSTS: HOSTILE},
    )
    seen = running(pod=HOSTILE, namespace=HOSTILE)
    seen = seen.model_copy(
        update={
            "hosts": dict(seen.hosts) | {"worker-1": HostFacts(reason=HOSTILE)},
            "platform": seen.platform.model_copy(update={"releases": {}, "reason": HOSTILE}),
        }
    )
    report = build_report(context, observation=seen, drift=drift)
    image = {"name": HOSTILE, "repository": HOSTILE, "digest": HOSTILE}
    report = SiteReport.model_validate(
        report.model_dump(exclude={"healthy"}) | {"images": [image], "domain": HOSTILE, "verified": HOSTILE}
    )
    page = _Page(render_page(report))
    plain = _Page(render_page(build_report(context, observation=running("train-1"))))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not page.loaded
    assert set(page.tags) <= {*plain.tags, "p"}, "no value may make an element"
    assert "{{ 7*7 }}" in render_page(report), "and none is a template"


def test_the_page_is_complete_in_itself(context: SiteContext, running: See) -> None:
    page = _Page(render_page(build_report(context, observation=running("train-1"))))
    assert not page.loaded
    assert "script" not in page.tags


def test_times_of_the_last_runs_are_shown_newest_first(context: SiteContext, running: See) -> None:
    step = {"name": "hosts", "layer": "hosts", "state": "done", "seconds": 10.0, "changed": 1, "detail": ""}
    lines = [
        json.dumps({"ended": f"2026-01-0{day}T00:00:00+0000", "seconds": 20.0, "changed": 1, "steps": [step]})
        for day in (1, 2)
    ]
    running()
    (context.paths.root / "runs.jsonl").write_text("\n".join([*lines, '{"ended": "2026-01-03T', ""]))
    report = build_report(context, observation=running())
    assert [r.ended for r in report.runs] == ["2026-01-02T00:00:00+0000", "2026-01-01T00:00:00+0000"]
    assert "width:50.0%" in render_page(report)


def test_the_answer_of_a_host_is_read() -> None:
    output = (
        "reached\n"
        "unit postgresql@15-main.service loaded active running PostgreSQL\n"
        "unit kine.service loaded failed failed kine\n"
        "device 0000:10:00.0 0x10de 0x1db4\n"
        f"checkpoint {json.dumps(CHECKPOINT)}\n"
    )
    facts = parse_answer(("postgresql@*-main", "kine", "haproxy"), output, "")
    assert facts.units == {"postgresql@*-main": "active", "kine": "failed", "haproxy": "not loaded"}
    assert facts.devices == {"0000:10:00.0": ("10de", "1db4")}
    assert facts.assigned == {"0000:10:00.0": "uid-1", "0000:18:00.0": "uid-2"}
    kernel = parse_answer(
        ("nfs-ganesha",),
        "reached\nunit nfs-server.service loaded active exited NFS\n",
        "",
        {"nfs-ganesha": "nfs-server"},
    )
    assert kernel.units == {"nfs-ganesha": "active"}
    container = parse_answer(
        ("nfs-ganesha",),
        "reached\nunit nfs-ganesha.service loaded active running NFS\n"
        "unit nfs-server.service not-found inactive dead\n",
        "",
        {"nfs-ganesha": "nfs-server"},
    )
    assert container.units == {"nfs-ganesha": "active"}
    assert parse_answer((), "", "ssh: connect: no route\n").reason == "ssh: connect: no route"
    assert parse_answer((), "reached\ncheckpoint {}\n", "").assigned == {}


def test_a_pod_that_the_kubelets_record_does_not_have_gets_a_card_of_its_resource() -> None:
    pods = [PodFacts(uid="a", namespace="n", name="p", node="g", ready=True, devices={"nvidia.com/gpu": 1})]
    facts = HostFacts(devices={"0000:00:05.0": ("10de", "1db4"), "0000:00:06.0": ("10de", "1db4")})
    cards = node_cards(CATALOGUE, "g", {"v100": 2}, facts, pods, up=True)
    assert [c.pod.name if c.pod else None for c in cards] == ["p", None]


def test_cards_that_are_missing_or_not_asked_for_are_reported() -> None:
    facts = HostFacts(devices={"0000:00:05.0": ("10de", "1db4")})
    missing = node_cards(CATALOGUE, "g", {"v100": 2}, facts, [], up=True)
    assert [(c.state, c.note) for c in missing] == [(State.GOOD, ""), (State.DOWN, "the host does not see it")]
    surplus = node_cards(CATALOGUE, "g", {}, facts, [], up=True)
    assert [(c.state, c.note) for c in surplus] == [(State.PARTIAL, "not in the site file")]
