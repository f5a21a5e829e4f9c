"""What belongs to nobody is reported, what belongs to somebody is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import distributions
from types import SimpleNamespace
from typing import Any

import pytest

from strata.engine import orphans
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata_lab import orphans as lab_orphans
from strata_lab.lifecycle import LabLifecycle

URN = "urn:pulumi:lab::strata-cloud::"
RELEASE = "kubernetes:helm.sh/v3:Release"


def named(identifier: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(id=identifier, name=f"name-{identifier}", **more)


@pytest.fixture
def context(context: SiteContext) -> SiteContext:
    """The lab, up."""
    instance = InstanceOutput(id="server", name="control-1", address="10.77.0.2", flavor="f", roles=("kube_node",))
    CloudOutputs(instances={"control-1": instance}, networks={}).save(context.paths)
    return context


def save_state(context: SiteContext, program: str, **latest: Any) -> None:
    file = context.paths.pulumi / ".pulumi" / "stacks" / f"strata-{program}" / "lab.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"checkpoint": {"latest": latest}}))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """OpenStack's and podman's objects by kind, as a test fills them."""
    has: dict[str, list[Any]] = {kind: [] for kind in ("ports", "subnets", "routers", "ips", "security_groups")}
    has |= {"servers": [named("server", project_id="project")], "networks": [named("net")], "providers": []}
    has |= {"server_groups": [], "containers": [], "volumes": [], "podman_networks": []}

    def listed(kind: str) -> Callable[..., list[Any]]:
        return lambda **_: has[kind]

    connection = SimpleNamespace(
        compute=SimpleNamespace(servers=listed("servers"), server_groups=listed("server_groups")),
        network=SimpleNamespace(
            **{kind: listed(kind) for kind in ("ports", "subnets", "networks", "routers", "ips", "security_groups")}
        ),
        identity=SimpleNamespace(find_project=lambda _name: named("project")),
        placement=SimpleNamespace(
            resource_providers=listed("providers"),
            get=lambda _path: SimpleNamespace(json=lambda: {"allocations": {"server": {}, "ghost": {}}}),
        ),
    )

    class Connected:
        def __enter__(self) -> Any:
            return connection

        def __exit__(self, *_: object) -> None:
            return

    def podman(*arguments: str, stdin: bytes | None = None) -> str:
        assert stdin is None
        if arguments[0] == "volume":
            return "\n".join(has["volumes"])
        return json.dumps(has["containers" if arguments[0] == "ps" else "podman_networks"])

    monkeypatch.setattr(orphans, "connect", lambda _context: Connected())
    monkeypatch.setattr(lab_orphans, "podman", podman)
    monkeypatch.setattr("strata.access.podman.podman", podman)
    return has


def test_what_is_known_to_all_is_not_orphaned(context: SiteContext, cloud: dict[str, list[Any]]) -> None:
    save_state(context, "cloud", resources=[{"urn": URN + "x::y", "id": i} for i in ("server", "net", "group")])
    cloud["security_groups"] = [named("group"), SimpleNamespace(id="0", name="default")]
    cloud["ports"] = [named("dhcp", device_owner="network:dhcp")]
    cloud["containers"] = [
        {"Names": ["strata-lab-controller"], "Labels": {"strata.role": "controller"}},
        {"Names": ["strata-lab-server"], "Labels": {"strata.instance": "server"}},
    ]
    cloud["volumes"] = ["strata-lab-server-kubelet", "strata-lab-backup-store"]
    cloud["podman_networks"] = [{"name": "strata-lab-control", "labels": {}}]
    assert orphans.find_orphans(context, LabLifecycle(context)) == []


def test_every_kind_is_named_with_its_remedy(context: SiteContext, cloud: dict[str, list[Any]]) -> None:
    pending = {"type": "creating", "resource": {"urn": URN + "openstack:compute/instance:Instance::worker-1"}}
    replaced = {"urn": URN + "a::old-flavor", "id": "1", "delete": True}
    save_state(context, "cloud", resources=[replaced, {"urn": "n", "id": "net"}], pending_operations=[pending])
    cloud["ports"] = [named("port", device_owner="")]
    for kind in ("subnet", "router", "security_group"):
        cloud[f"{kind}s"] = [named(kind)]
    cloud["networks"].append(named("other"))
    cloud["server_groups"] = [named("server_group", project_id="project")]
    cloud["ips"] = [SimpleNamespace(id="ip", name="192.0.2.7", floating_ip_address="192.0.2.7")]
    cloud["providers"] = [named("provider")]
    cloud["containers"] = [{"Names": ["strata-lab-ghost"], "Labels": {"strata.instance": "ghost"}}]
    cloud["volumes"] = ["strata-lab-ghost-kubelet"]
    cloud["podman_networks"] = [{"name": "strata-lab-12", "labels": {"strata.neutron_network": "12"}}]
    (context.paths.outputs / ".cloud.json.abc.partial").write_text("{")
    by_object = {orphan.object: orphan.fix for orphan in orphans.find_orphans(context, LabLifecycle(context))}
    partial = str(context.paths.outputs / ".cloud.json.abc.partial")
    assert by_object == {
        "creating worker-1": "strata up SITE --layer cloud",
        "old-flavor": "strata up SITE --layer cloud",
        partial: "strata up SITE",
        "container strata-lab-ghost": "podman rm -f -v strata-lab-ghost",
        "volume strata-lab-ghost-kubelet": "podman volume rm strata-lab-ghost-kubelet",
        "network strata-lab-12": "podman network rm strata-lab-12",
        "resources of name-provider for ghost": "openstack resource provider allocation delete ghost",
        "server name-server": "openstack server delete server",
        "port name-port": "openstack port delete port",
        "subnet name-subnet": "openstack subnet delete subnet",
        "network name-other": "openstack network delete other",
        "router name-router": "openstack router delete router",
        "floating ip 192.0.2.7": "openstack floating ip delete ip",
        "security group name-security_group": "openstack security group delete security_group",
        "server group name-server_group": "openstack server group delete server_group",
    }
    known = {
        p.name
        for distribution in distributions()
        for p in distribution.entry_points
        if p.group.startswith("openstack.")
    }
    fixes = [fix.split() for fix in by_object.values() if fix.startswith("openstack ")]
    assert {"_".join(words[1:-1]) for words in fixes} <= known, "the client that is installed has no such command"


def test_nodes_and_releases(context: SiteContext, cloud: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(context, "cloud", resources=[{"urn": "s", "id": i} for i in ("server", "net")])
    outputs = [{"namespace": "system", "name": name} for name in ("good", "stuck")]
    save_state(context, "platform", resources=[{"urn": "r", "type": RELEASE, "outputs": o} for o in outputs])
    context.paths.kubeconfig.write_text("")
    releases = [
        {"namespace": "system", "name": "good", "status": "deployed"},
        {"namespace": "system", "name": "stuck", "status": "pending-install"},
        {"namespace": "system", "name": "strange", "status": "deployed"},
    ]
    nodes = {"items": [{"metadata": {"name": name}} for name in ("control-1", "old-worker")]}
    monkeypatch.setattr(orphans, "kubectl_json", lambda *_: nodes)
    monkeypatch.setattr(orphans, "helm_releases", lambda *_: releases)
    assert {orphan.object: orphan.why for orphan in orphans.find_orphans(context, LabLifecycle(context))} == {
        "node old-worker": "the site has no such host",
        "release stuck in system": "is pending-install",
        "release strange in system": "Pulumi's state does not have it",
    }
    assert cloud["containers"] == []
