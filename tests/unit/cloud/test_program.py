"""What pulumi/cloud asks OpenStack for, recorded without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pulumi
import pytest

from strata.cloud.arguments import external_network_arguments
from strata.cloud.external_network import ExternalNetworkArgs
from strata.models.cloud import Cloud
from strata.provider import provider_of
from strata.site.outputs import CloudOutputs, ExistingObjects
from strata.site.paths import SitePaths
from strata.site_file.loader import load_site
from strata.stacks import pending as pulumi_pending

from .conftest import PASSWORD, PUBLIC_KEY, SITES_WITH_CLOUD, Recorded, cloud_entry, write_clouds, write_key
from .recorder import Recorder, run_program, site_file

INSTANCE = "openstack:compute/instance:Instance"
FLAVOR = "openstack:compute/flavor:Flavor"
SERVER_GROUP = "openstack:compute/serverGroup:ServerGroup"
AGGREGATE = "openstack:compute/aggregateV2:AggregateV2"
NETWORK = "openstack:networking/network:Network"
SUBNET = "openstack:networking/subnet:Subnet"
PORT = "openstack:networking/port:Port"
RULE = "openstack:networking/secGroupRule:SecGroupRule"
ROUTER = "openstack:networking/router:Router"
INTERFACE = "openstack:networking/routerInterface:RouterInterface"
FLOATING_IP = "openstack:networking/floatingIp:FloatingIp"
IMAGE = "openstack:images/image:Image"
PROVIDER = "pulumi:providers:openstack"
GROUP = "{name: single, policy: soft-anti-affinity}"


def load_cloud(site: str) -> Cloud:
    """The cloud of an example."""
    cloud = load_site(site_file(site)).cloud
    assert cloud is not None
    return cloud


def external_network_made(site: str) -> bool:
    """Whether the external network is the site's own."""
    return provider_of(load_site(site_file(site))).external_subnet() is not None


@pytest.mark.parametrize("site", SITES_WITH_CLOUD)
def test_a_flavor_asks_for_hosts_that_there_are(site: str, recorded: Recorded) -> None:
    recorder, _ = recorded(site)
    if not load_cloud(site).administrator:
        assert not {kind for kind, _ in recorder.resources} & {AGGREGATE, FLAVOR}
        return
    hosts = {inputs["metadata"]["gpu"] for (kind, _), inputs in recorder.resources.items() if kind == AGGREGATE}
    flavors = [inputs for (kind, _), inputs in recorder.resources.items() if kind == FLAVOR]
    requested = {inputs.get("extraSpecs", {}).get("aggregate_instance_extra_specs:gpu") for inputs in flavors}
    assert requested - {None} <= hosts
    if "none" not in hosts:
        assert any("aggregate_instance_extra_specs:gpu" not in inputs.get("extraSpecs", {}) for inputs in flavors)


@pytest.mark.parametrize("site", SITES_WITH_CLOUD)
def test_a_killed_creation_of_every_type_can_be_cleaned_up(site: str, recorded: Recorded) -> None:
    recorder, _ = recorded(site)
    made = {kind for kind, _ in recorder.resources if kind.startswith("openstack:")}
    assert made
    assert made <= pulumi_pending.IN_PROJECT.keys() | pulumi_pending.CLOUD_WIDE.keys() | pulumi_pending.REPEATABLE


@pytest.mark.parametrize("site", SITES_WITH_CLOUD)
def test_every_object_of_the_site_is_asked_for(site: str, recorded: Recorded) -> None:
    recorder, outputs = recorded(site)
    cloud = load_cloud(site)

    def names(kind: str) -> set[str]:
        return {name for typ, name in recorder.resources if typ == kind}

    assert names(INSTANCE) == names(PORT) == {i.name for i in cloud.instances}
    assert names(FLAVOR) == {f.name for f in cloud.flavors if not f.existing}
    assert names(FLOATING_IP) == {i.name for i in cloud.instances if i.floating_ip}
    made = {"external"} if external_network_made(site) else set()
    assert names(NETWORK) == names(SUBNET) == {n.name for n in cloud.networks} | made
    assert names(SERVER_GROUP) == {group.name for group in cloud.server_groups}
    routed = {f"router-{n.name}" for n in cloud.networks} if cloud.external_network else set()
    assert names(INTERFACE) == routed
    hosts = {h for (typ, _), inputs in recorder.resources.items() if typ == AGGREGATE for h in inputs["hosts"]}
    assert hosts == {h.name for h in cloud.hypervisors}
    layer = CloudOutputs.model_validate(outputs)
    assert set(layer.instances) == {i.name for i in cloud.instances}
    assert set(layer.networks) == {n.name for n in cloud.networks}


def test_lab_in_detail(recorded: Recorded) -> None:
    recorder, outputs = recorded("lab")
    resources = recorder.resources

    assert resources[FLAVOR, "gpu.v100.2"] | {"name": "gpu.v100.2"} == {
        "name": "gpu.v100.2",
        "vcpus": 8.0,
        "ram": 8192.0,
        "disk": 20.0,
        "isPublic": True,
        "extraSpecs": {"pci_passthrough:alias": "v100:2", "aggregate_instance_extra_specs:gpu": "v100"},
    }
    assert resources[FLAVOR, "cpu.small"]["extraSpecs"] == {"aggregate_instance_extra_specs:gpu": "none"}
    assert resources[AGGREGATE, "v100"]["hosts"] == ["compute-gpu-1"]
    assert resources[AGGREGATE, "v100"]["metadata"] == {"gpu": "v100"}
    assert resources[AGGREGATE, "none"]["hosts"] == ["compute-1"]
    assert resources[SUBNET, "platform"]["cidr"] == "10.77.0.0/24"
    assert resources["openstack:compute/quotaSetV2:QuotaSetV2", "project"] == {
        "projectId": "project-id",
        "instances": 10.0,
        "cores": 40.0,
        "ram": 65536.0,
    }
    assert resources["openstack:compute/keypair:Keypair", "key-pair"]["publicKey"] == PUBLIC_KEY
    assert resources[IMAGE, "debian-12"]["properties"]["strata_image"].startswith("localhost/strata-debian-12:")
    worker = resources[INSTANCE, "gpu-worker-1"]
    assert worker["metadata"] == {"strata_site": "lab", "strata_roles": "kube_node,gpu_node"}
    assert worker["flavorId"] == "gpu.v100.1-id"
    assert worker["networks"] == [{"port": "gpu-worker-1-id"}]
    assert resources[PORT, "control-1"]["securityGroupIds"] == ["nodes-id", "kube_control_plane-id"]
    assert resources[PORT, "worker-1"]["securityGroupIds"] == ["nodes-id", "kube_node-id"]
    assert outputs["instances"]["services-1"]["roles"] == [
        "nfs_server",
        "postgresql",
        "kine",
        "registry",
        "load_balancer",
        "backup",
    ]


def test_a_router_leads_out_over_the_labs_control_network(recorded: Recorded) -> None:
    """Addresses of the upper half, so that they never meet the controller's."""
    recorder, _ = recorded("lab")
    resources = recorder.resources
    assert resources[NETWORK, "external"] == {"name": "public", "external": True, "adminStateUp": True}
    assert resources[SUBNET, "external"]["allocationPools"] == [{"start": "10.87.0.128", "end": "10.87.0.254"}]
    assert resources[SUBNET, "external"]["gatewayIp"] == "10.87.0.1"
    assert resources[ROUTER, "router"]["externalNetworkId"] == "external-id"
    assert resources[INTERFACE, "router-platform"] == {"routerId": "router-id", "subnetId": "platform-id"}
    assert recorder.providers[NETWORK, "external"].split("::")[-2] == "administrator"
    assert recorder.providers[ROUTER, "router"].split("::")[-2] == "project-scope"


def test_a_fresh_cloud_of_kolla_gets_an_external_network_and_an_image(recorded: Recorded) -> None:
    """Before them, no instance could boot, and none could be reached from outside."""
    recorder, _ = recorded("tacc")
    resources = recorder.resources
    assert resources[NETWORK, "external"]["segments"] == [{"networkType": "flat", "physicalNetwork": "physnet1"}]
    assert resources[SUBNET, "external"]["allocationPools"] == [{"start": "198.51.100.100", "end": "198.51.100.199"}]
    assert resources[SUBNET, "external"]["gatewayIp"] == "198.51.100.1"
    assert resources[ROUTER, "router"]["externalNetworkId"] == "external-id"
    image = resources[IMAGE, "debian-12"]
    (described,) = load_cloud("tacc").images
    assert (image["diskFormat"], image["properties"]["strata_checksum"]) == ("qcow2", described.checksum)
    assert Path(image["localFilePath"]).is_absolute()
    assert resources[INSTANCE, "cic-edge"]["networks"] == [{"port": "cic-edge-id"}]
    assert recorder.providers[IMAGE, "debian-12"].split("::")[-2] == "administrator"


@pytest.mark.usefixtures("operator")
def test_an_existing_clouds_external_network_is_found(tmp_path: Path) -> None:
    text = site_file("csc").read_text()
    before = "  external_network: public\n"
    assert before in text
    file = tmp_path / "site.yaml"
    file.write_text(text.replace(before, "  external_network: internet\n"))
    site = load_site(file)
    assert site.cloud is not None
    assert external_network_arguments(site.cloud, provider_of(site)) == ExternalNetworkArgs("internet")


@pytest.mark.usefixtures("operator")
def test_a_members_project_by_its_own_credentials_alone() -> None:
    """Nothing of the cloud's own is created, one provider does all, and the image stays the one that was recorded."""
    ExistingObjects(images={"debian-13": "recorded-id"}).save(SitePaths("campus").create())
    recorder = Recorder()
    outputs = run_program("cloud", "campus", recorder)
    resources = recorder.resources
    assert {kind for kind, _ in resources if kind.startswith("openstack:")} <= pulumi_pending.IN_PROJECT.keys()
    assert {name: inputs["cloud"] for (kind, name), inputs in resources.items() if kind == PROVIDER} == {
        "project-scope": "campus"
    }
    assert resources[INSTANCE, "gpu-worker-1"]["flavorId"] == "found-gpu.v100.1"
    assert {inputs["imageId"] for (kind, _), inputs in resources.items() if kind == INSTANCE} == {"recorded-id"}
    assert resources[ROUTER, "router"]["externalNetworkId"] == "found-public"
    assert resources[FLOATING_IP, "edge-1"] == {
        "pool": "public",
        "portId": "edge-1-id",
        "description": "campus: edge-1",
    }
    assert "floating_ip" in outputs["instances"]["edge-1"]
    assert "floating_ip" not in outputs["instances"]["worker-1"]


def test_a_bastion_is_the_only_way_in(recorded: Recorded) -> None:
    recorder, _ = recorded("campus")
    ssh = {
        (rule["securityGroupId"], rule.get("remoteIpPrefix") or rule["remoteGroupId"])
        for (kind, _), rule in recorder.resources.items()
        if kind == RULE and rule.get("portRangeMin") == 22.0
    }
    assert ssh == {("nodes-id", "bastion-id"), ("bastion-id", "192.0.2.10/32")}
    with_bastion = {
        n for (kind, n), p in recorder.resources.items() if kind == PORT and "bastion-id" in p["securityGroupIds"]
    }
    assert with_bastion == {"edge-1"}


def test_nodes_may_send_from_their_pods_addresses(recorded: Recorded) -> None:
    recorder, _ = recorded("lab")
    pairs = {n: p.get("allowedAddressPairs") for (typ, n), p in recorder.resources.items() if typ == PORT}
    assert pairs["worker-1"] == pairs["control-1"] == [{"ipAddress": "10.244.0.0/16"}]
    assert not pairs["services-1"]


def test_instances_belong_to_the_project_and_flavors_to_the_cloud(recorded: Recorded) -> None:
    recorder, _ = recorded("lab")
    assert recorder.providers[INSTANCE, "worker-1"].split("::")[-2] == "project-scope"
    assert recorder.providers[NETWORK, "platform"].split("::")[-2] == "project-scope"
    assert recorder.providers[FLAVOR, "cpu.small"].split("::")[-2] == "administrator"


def test_only_what_must_be_reached_is_open(recorded: Recorded) -> None:
    """To the networks that the site file names, and to the hosts whose roles need it."""
    recorder, _ = recorded("lab")
    opened: dict[str, set[tuple[Any, ...]]] = {}
    for (typ, _), rule in recorder.resources.items():
        if typ == RULE:
            source = rule.get("remoteIpPrefix") or rule["remoteGroupId"].removesuffix("-id")
            what = (rule.get("protocol"), rule.get("portRangeMin"), rule.get("portRangeMax"))
            opened.setdefault(rule["securityGroupId"].removesuffix("-id"), set()).add((source, *what))
    nodes, outside = ("kube_control_plane", "kube_node"), "10.77.0.1/32"
    cluster = {(source, None, None, None) for source in (*nodes, "10.244.0.0/16")}
    assert opened == {
        "nodes": {
            *((outside, "tcp", 22, 22), (outside, "icmp", None, None), ("nodes", "icmp", None, None)),
            *((role, "tcp", 9100, 9100) for role in nodes),
        },
        "nfs_server": {("kube_node", "tcp", 2049, 2049)},
        "postgresql": {(role, "tcp", 5432, 5432) for role in ("kine", "kube_node")},
        "kine": {("kube_control_plane", "tcp", 2379, 2379)},
        "registry": {(s, "tcp", 5000, 5000) for s in (*nodes, outside)} | {(outside, "tcp", 5001, 5001)},
        "load_balancer": {(s, "tcp", port, port) for s in ("nodes", outside) for port in (80, 443)},
        "kube_control_plane": cluster | {(outside, "tcp", 6443, 6443)},
        "kube_node": cluster | {("load_balancer", "tcp", 30443, 30443)},
    }


@pytest.mark.usefixtures("operator")
def test_a_site_that_names_no_one_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"(?m)^access:.*\n(  .*\n)+", "", site_file("lab").read_text())
    (tmp_path / "catalogue.json").write_bytes(site_file("lab").with_name("catalogue.json").read_bytes())
    (tmp_path / "site.yaml").write_text(text)
    monkeypatch.setenv("STRATA_SITE_FILE", str(tmp_path / "site.yaml"))
    recorder = Recorder()
    run_program("cloud", "lab", recorder)
    prefixes = {r.get("remoteIpPrefix") for (typ, _), r in recorder.resources.items() if typ == RULE}
    assert prefixes == {None, "10.244.0.0/16"}


def test_an_instance_waits_for_the_aggregates(recorded: Recorded) -> None:
    """The scheduler reads their metadata; recorded order is the order in which Pulumi may create."""
    recorder, _ = recorded("lab")
    order = [typ for typ, _ in recorder.resources]
    last_aggregate = max(i for i, typ in enumerate(order) if typ == AGGREGATE)
    assert last_aggregate < order.index(INSTANCE)


@pytest.mark.usefixtures("operator")
def test_server_groups_and_zones_show_where_instances_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = site_file("csc").read_text()
    text = text.replace("[slurm_controller]}", "[slurm_controller], server_group: single, availability_zone: az1}")
    (tmp_path / "site.yaml").write_text(text.replace("  instances:\n", f"  server_groups: [{GROUP}]\n  instances:\n"))
    monkeypatch.setenv("STRATA_SITE_FILE", str(tmp_path / "site.yaml"))
    recorder = Recorder()
    run_program("cloud", "csc", recorder)
    resources = recorder.resources
    assert resources[SERVER_GROUP, "single"] == {"name": "single", "policies": "soft-anti-affinity"}
    assert resources[INSTANCE, "batch-1"]["schedulerHints"] == [{"group": "single-id"}]
    assert resources[INSTANCE, "batch-1"]["availabilityZone"] == "az1"
    assert not {"schedulerHints", "availabilityZone"} & resources[INSTANCE, "control-1"].keys()


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("addressing", ["slaac", "dhcpv6-stateful"])
def test_ipv6_beside_ipv4(addressing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced by a router, on every port, through the same security groups; Strata connects over IPv4."""
    text = site_file("campus").read_text()
    ipv6 = f", ipv6: {{cidr: 2001:db8:79::/64, addressing: {addressing}}}}}"
    text, edits = re.subn(r"(- \{name: campus, cidr: [0-9./]+[^}]*)\}", rf"\1{ipv6}", text)
    assert edits == 1
    (tmp_path / "site.yaml").write_text(text)
    monkeypatch.setenv("STRATA_SITE_FILE", str(tmp_path / "site.yaml"))
    ExistingObjects(images={"debian-13": "recorded-id"}).save(SitePaths("campus").create())
    recorder = Recorder()
    outputs = run_program("cloud", "campus", recorder)
    resources = recorder.resources
    assert resources[SUBNET, "campus-ipv6"] == {
        "name": "campus-ipv6",
        "networkId": "campus-id",
        "cidr": "2001:db8:79::/64",
        "ipVersion": 6.0,
        "ipv6AddressMode": addressing,
        "ipv6RaMode": addressing,
        "gatewayIp": "2001:db8:79::1",
        "dnsNameservers": [],
    }
    assert resources[INTERFACE, "router-campus-ipv6"] == {"routerId": "router-id", "subnetId": "campus-ipv6-id"}
    assert resources[PORT, "worker-1"]["fixedIps"] == [{"subnetId": "campus-id"}, {"subnetId": "campus-ipv6-id"}]
    rules = [inputs for (kind, _), inputs in resources.items() if kind == RULE]
    from_groups = {
        version: sum(r["ethertype"] == version and "remoteGroupId" in r for r in rules) for version in ("IPv4", "IPv6")
    }
    assert from_groups["IPv4"] == from_groups["IPv6"] > 0
    assert {r["protocol"] for r in rules if r["ethertype"] == "IPv6" and "ping" in r["description"]} == {"ipv6-icmp"}
    assert {i["address"].rpartition(".")[0] for i in outputs["instances"].values()} == {"192.0.2"}


@pytest.mark.usefixtures("operator")
def test_volumes_are_attached_and_boot_volumes_take_the_place_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = site_file("csc").read_text()
    spool = "volumes: [{name: spool, size: 1 TiB, mount_path: /srv/spool}]"
    given = f"[slurm_controller], boot_volume: {{size: 40 GiB, volume_type: ssd}}, {spool}}}"
    (tmp_path / "site.yaml").write_text(text.replace("[slurm_controller]}", given))
    monkeypatch.setenv("STRATA_SITE_FILE", str(tmp_path / "site.yaml"))
    recorder = Recorder()
    outputs = run_program("cloud", "csc", recorder)
    resources = recorder.resources
    batch = resources[INSTANCE, "batch-1"]
    (boot,) = batch["blockDevices"]
    assert "imageId" not in batch
    assert boot | {"uuid": ""} == {
        "uuid": "",
        "sourceType": "image",
        "destinationType": "volume",
        "bootIndex": 0,
        "volumeSize": 40,
        "volumeType": "ssd",
        "deleteOnTermination": True,
    }
    assert resources["openstack:blockstorage/volume:Volume", "spool"] == {
        "name": "spool",
        "description": "csc: /srv/spool of batch-1",
        "size": 1024,
        "enableOnlineResize": True,
    }
    attachment = resources["openstack:compute/volumeAttach:VolumeAttach", "spool"]
    assert attachment == {"instanceId": "batch-1-id", "volumeId": "spool-id"}
    assert "blockDevices" not in resources[INSTANCE, "control-1"]
    assert CloudOutputs.model_validate(outputs).instances["batch-1"].volumes == {"spool": "spool-id"}


def test_no_password_reaches_the_state(recorded: Recorded) -> None:
    recorder, _ = recorded("lab")
    assert PASSWORD not in str(recorder.resources)


def test_providers_name_their_entries(recorded: Recorded) -> None:
    """A provider without a name would take the one that OS_CLOUD names: everything would land in its project."""
    recorder, _ = recorded("lab")
    assert recorder.resources[PROVIDER, "administrator"]["cloud"] == "lab"
    assert recorder.resources[PROVIDER, "project-scope"]["cloud"] == "lab-platform"


def test_missing_cloud_entry_shows_where_to_put_it(operator: Path) -> None:
    write_clouds(operator, {"other": cloud_entry()})
    with pytest.raises(pulumi.RunError, match=r"there is no cloud 'lab'\n.*fix: add the entry of an administrator"):
        run_program("cloud", "lab", Recorder())
    write_clouds(operator, {"lab": cloud_entry()})
    with pytest.raises(
        pulumi.RunError, match=r"no cloud 'lab-platform'\n.*add a copy of the entry lab with `project_name"
    ):
        run_program("cloud", "lab", Recorder())


@pytest.mark.usefixtures("operator")
def test_site_file_of_another_site_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_SITE_FILE", str(site_file("lab")))
    with pytest.raises(pulumi.RunError, match="describes the site lab, the stack is other"):
        run_program("cloud", "other", Recorder())


def test_a_hundred_instances(operator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance is three resources, each about 10 ms of this test; the quota is for three hundred."""
    workers = "".join(
        f"    - {{name: node-{n}, flavor: cpu, image: debian-12, network: platform, roles: [kube_node]}}\n"
        for n in range(99)
    )
    file = operator / "site.yaml"
    file.write_text(f"""
name: large
domain: large.example.org
cloud:
  deployment: existing
  hypervisors: [{{name: compute-1, vcpus: 100000, memory: 100 TiB, disk: 100 TiB}}]
  project: {{name: large, quota: {{instances: 300, cores: 2000, memory: 2000 GiB}}}}
  networks: [{{name: platform, cidr: 10.77.0.0/16}}]
  images: [{{name: debian-12, distribution: debian, release: "12"}}]
  flavors: [{{name: cpu, vcpus: 2, memory: 2 GiB, disk: 20 GiB}}]
  instances:
    - {{name: control-1, flavor: cpu, image: debian-12, network: platform, roles: [kube_control_plane]}}
{workers}cluster: {{name: large, datastore: etcd, pod_network: 10.244.0.0/14}}
""")
    write_key("large")
    write_clouds(operator, {"large": cloud_entry(), "large-large": cloud_entry()})
    monkeypatch.setenv("STRATA_SITE_FILE", str(file))
    recorder = Recorder()
    outputs = run_program("cloud", "large", recorder)
    assert len(outputs["instances"]) == 100
    quota = recorder.resources["openstack:networking/quotaV2:QuotaV2", "project"]
    assert quota["port"] >= 300
    assert ("openstack:images/getImage:getImage", "debian-12") in {
        (token, args.get("name")) for token, args in recorder.lookups
    }


@pytest.mark.usefixtures("operator")
def test_the_virtual_address_of_load_balancers_has_a_port_and_a_floating_ip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = site_file("campus").read_text()
    edge = "    - {name: edge-2, flavor: cpu.small, image: debian-13, network: campus, roles: [load_balancer]}\n"
    section = "  load_balancer: {virtual_address: 10.79.0.9, floating_ip: true}\n"
    text = text.replace("\nhosts:\n", f"{edge}\nhosts:\n{section}")
    (tmp_path / "site.yaml").write_text(text)
    monkeypatch.setenv("STRATA_SITE_FILE", str(tmp_path / "site.yaml"))
    recorder = Recorder()
    outputs = run_program("cloud", "campus", recorder)
    resources = recorder.resources
    shared = resources[PORT, "load_balancer"]
    assert shared["fixedIps"] == [{"subnetId": "campus-id", "ipAddress": "10.79.0.9"}]
    assert set(shared["securityGroupIds"]) == {"nodes-id", "load_balancer-id"}
    assert resources[FLOATING_IP, "load_balancer"]["portId"] == "load_balancer-id"
    for name in ("edge-1", "edge-2"):
        assert {"ipAddress": "10.79.0.9"} in resources[PORT, name]["allowedAddressPairs"]
    assert not resources[PORT, "storage-1"].get("allowedAddressPairs")
    assert "virtual_floating_ip" in outputs
