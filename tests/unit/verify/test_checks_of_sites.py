"""The real checks on sites that are not lab: campus (an existing cloud), tacc (V100), cnaf (mixed servers), metal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from keystoneauth1.session import Session
from tests.unit.verify.site_doubles import V100, Cluster, LocalHost, container_of, context_of, devices

from strata.cloud.flavor_cards import flavor_cards
from strata.image_reference import ImageReference
from strata.models.cloud import Cloud
from strata.platform.nvidia_device_plugin import PLUGIN_IMAGE
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.toolchain import load_versions
from strata.verify.checks import test_cloud as cloud_checks
from strata.verify.checks import test_cluster as cluster_checks

NETWORK_CARD = ("0000:01:00.0", "0x8086", "0x1572", "0x020000")
DISPLAY = ("0000:00:02.0", "0x1234", "0x1111", "0x030000")
OTHER_GPU = ("0000:06:00.0", "0x10de", "0xfff0", "0x030200")
SOUND = ("0000:06:00.1", "0x10de", "0xfff1", "0x040300")
DIGEST = f"sha256:{'0' * 64}"
GPU_NODE = "cic-gpu01"


def model_of(name: str) -> Cloud:
    """The cloud of a site."""
    cloud = context_of(name).site.cloud
    assert isinstance(cloud, Cloud)
    return cloud


def connection(model: Cloud, **specs: dict[str, str]) -> Any:
    """A cloud with the site's flavors, some with these extra specs."""
    flavors = [
        SimpleNamespace(
            name=f.name,
            vcpus=f.vcpus,
            ram=f.memory.mebibytes,
            disk=f.disk.gibibytes,
            extra_specs=specs.get(f.name.replace(".", "_"), {}),
        )
        for f in model.flavors
    ]
    return SimpleNamespace(compute=SimpleNamespace(flavors=lambda **_: flavors))


@pytest.mark.parametrize(
    "specs",
    [
        {"pci_passthrough:alias": "V100:1"},
        {"resources:CUSTOM_PCI_10DE_1DB4": "1"},
        {"pci_passthrough:alias": "v100:1", "aggregate_instance_extra_specs:gpu": "true"},
    ],
)
def test_existing_flavors_need_no_aggregate_of_stratas(specs: dict[str, str]) -> None:
    model = model_of("campus")
    check = cloud_checks.test_flavors_ask_for_their_cards
    check(context_of("campus").site, connection(model, gpu_v100_1=specs), model)
    with pytest.raises(AssertionError, match=r"gpu\.v100\.1"):
        check(context_of("campus").site, connection(model), model)
    with pytest.raises(AssertionError, match=r"cpu\.small"):
        check(context_of("campus").site, connection(model, gpu_v100_1=specs, cpu_small=specs), model)


def test_flavors_of_the_site_still_choose_their_aggregate() -> None:
    model = model_of("tacc")
    one = {"pci_passthrough:alias": "v100:1", "aggregate_instance_extra_specs:gpu": "v100"}
    two = one | {"pci_passthrough:alias": "v100:2"}
    plain = {"aggregate_instance_extra_specs:gpu": "none"}
    check, site = cloud_checks.test_flavors_ask_for_their_cards, context_of("tacc").site
    check(site, connection(model, m1_large=plain, g1_v100=one, **{"g1_v100_2": two}), model)
    with pytest.raises(AssertionError, match=r"m1\.large"):
        check(site, connection(model, g1_v100=one, **{"g1_v100_2": two}), model)


def test_aliases_and_resource_classes_are_counted() -> None:
    kinds = context_of("tacc").site.accelerators.values()
    specs = {"pci_passthrough:alias": "V100:2, u50", "resources1:CUSTOM_PCI_10DE_1DB4": "1", "hw:numa_nodes": "1"}
    assert flavor_cards(specs, kinds, {}) == {"v100": 3, "u50": 1}
    assert flavor_cards(specs, kinds, {"u250": "U50"}) == {"v100": 3, "u250": 1}


@pytest.mark.parametrize("cards", [[V100], [OTHER_GPU, SOUND]])
@pytest.mark.parametrize("name", ["campus", "tacc"])
def test_a_cpu_instance_with_a_card_fails(name: str, cards: list[tuple[str, str, str, str]], tmp_path: Path) -> None:
    context, model = context_of(name), model_of(name)
    plain = LocalHost(devices(tmp_path / "plain", NETWORK_CARD, DISPLAY))
    check: Any = cloud_checks.test_cpu_instances_see_no_card
    check(context, model, lambda _: plain)
    given = LocalHost(devices(tmp_path / "given", NETWORK_CARD, *cards))
    last = [i.name for i in model.instances if not cloud_checks.flavor_of(model, i).accelerators][-1]
    with pytest.raises(AssertionError, match=last):
        check(context, model, lambda host: given if host == last else plain)


def test_an_instance_whose_devices_cannot_be_read_fails(tmp_path: Path) -> None:
    check: Any = cloud_checks.test_cpu_instances_see_no_card
    with pytest.raises(AssertionError):
        check(context_of("tacc"), model_of("tacc"), lambda _: LocalHost(tmp_path / "none"))


def test_gpus_of_instances_are_distinguished_by_the_driver(tmp_path: Path) -> None:
    """Two instances of a hypervisor have their card at the same address: each numbers its own devices."""
    context, model, check = context_of("tacc"), model_of("tacc"), cloud_checks.test_gpu_instances_see_their_cards_only
    one = devices(tmp_path / "one", V100)
    two = devices(tmp_path / "two", V100, ("0000:af:00.0", *V100[1:]))
    servers = {i.name: SimpleNamespace(host_id="same") for i in model.instances}

    def host(name: str, uuid: str) -> Any:
        return LocalHost(two if name == "cic-gpu03" else one, {"nvidia-smi": f"{uuid}\n"})

    run: Any = check
    run(context, model, servers, lambda name: host(name, f"GPU-{name}"))
    with pytest.raises(AssertionError, match="GPU-1"):
        run(context, model, servers, lambda name: host(name, "GPU-1"))
    with pytest.raises(AssertionError, match="cic-gpu03"):
        run(context, model, servers, lambda name: LocalHost(one, {"nvidia-smi": name}))


def test_instances_without_cards_may_run_on_hosts_with_cards_where_all_have_some() -> None:
    model = model_of("cnaf")
    servers = {
        i.name: SimpleNamespace(
            status="ACTIVE",
            hypervisor_hostname="server-1" if i.flavor in ("core", "t4.4", "rtx5000.5") else "server-2",
        )
        for i in model.instances
    }
    cloud_checks.test_instances_run_where_they_should(model, servers)
    servers["alveo-a"].hypervisor_hostname = "server-1"
    with pytest.raises(AssertionError, match="alveo-a"):
        cloud_checks.test_instances_run_where_they_should(model, servers)


def test_a_hypervisor_of_two_kinds_is_in_both_aggregates() -> None:
    model = model_of("cnaf")
    kinds = {"server-1": ("t4", "rtx5000"), "server-2": ("a30", "a100", "u50", "u250")}

    def openstack(missing: str = "") -> Any:
        listed = [(host, kind) for host, held in kinds.items() for kind in held if kind != missing]
        own = [SimpleNamespace(metadata={"gpu": kind}, hosts=[host]) for host, kind in listed]
        others = SimpleNamespace(metadata={"availability_zone": "nova"}, hosts=["server-1", "elsewhere"])
        return SimpleNamespace(compute=SimpleNamespace(aggregates=lambda: [*own, others]))

    cloud_checks.test_aggregates_keep_kinds_apart(openstack(), model)
    with pytest.raises(AssertionError, match="server-1"):
        cloud_checks.test_aggregates_keep_kinds_apart(openstack("t4"), model)
    kinds["server-2"] += ("t4",)
    with pytest.raises(AssertionError, match="server-2"):
        cloud_checks.test_aggregates_keep_kinds_apart(openstack(), model)


def test_hypervisors_may_have_more_than_site_yaml_counts_on() -> None:
    """Real memory is not a round number, and dedicated CPUs are of a resource class of their own."""
    model = model_of("tacc")

    def openstack(memory: int) -> Any:
        listed = [SimpleNamespace(name=h.name, id=h.name, state="up", status="enabled") for h in model.hypervisors]
        inventories = {"VCPU": {"total": 8}, "PCPU": {"total": 88}, "MEMORY_MB": {"total": memory}}
        answer = SimpleNamespace(json=lambda: {"inventories": inventories})
        compute = SimpleNamespace(hypervisors=lambda **_: listed)
        return SimpleNamespace(compute=compute, placement=SimpleNamespace(get=lambda _: answer))

    cloud_checks.test_hypervisors_are_up(openstack(393_217), model)
    with pytest.raises(AssertionError, match=r"c01 has 386000 MiB, site\.yaml counts on 393216 MiB"):
        cloud_checks.test_hypervisors_are_up(openstack(386_000), model)


def test_the_api_is_asked_with_the_clouds_ca() -> None:
    """By the session of clouds.yaml, below the path of the service."""
    asked: list[tuple[str, Any]] = []

    class Transport(requests.adapters.BaseAdapter):
        def send(self, request: requests.PreparedRequest, *_: Any, verify: Any = None, **__: Any) -> requests.Response:
            asked.append((str(request.url), verify))
            response = requests.Response()
            response.status_code, response._content, response.request = 300, b'{"versions": [{"id": "v2.1"}]}', request
            response.url, response.headers["Content-Type"] = str(request.url), "application/json"
            return response

        def close(self) -> None:
            """Nothing is open."""

    plain = requests.Session()
    plain.mount("https://", Transport())
    session = Session(session=plain, verify="/etc/campus/ca.pem")
    for url in ("https://v2.example.org/compute/v2.1/0123", "https://v2.example.org/compute"):
        cloud: Any = SimpleNamespace(session=session, endpoint_for=lambda _, url=url: url)
        cloud_checks.test_api_lists_its_versions(cloud, "compute")
    assert asked == [("https://v2.example.org/compute/", "/etc/campus/ca.pem")] * 2
    missing: Any = SimpleNamespace(session=session, endpoint_for=lambda _: None)
    with pytest.raises(AssertionError, match="lists no compute"):
        cloud_checks.test_api_lists_its_versions(missing, "compute")


def gpu_pod(cluster: Cluster, sysfs: Path) -> None:
    """The check of a pod with the GPUs of a node of tacc."""
    context = context_of("tacc")
    base = ImageReference(repository="registry.ml.tacc.example.org:5000/strata/pod-base", digest=DIGEST)
    offered = {GPU_NODE: {"nvidia.com/gpu": 1}}
    check: Any = cluster_checks.test_gpu_pod_sees_its_cards
    images = ImageOutputs(images={"pod-base": base})
    check(context, cluster, "check", images, offered, lambda _: LocalHost(sysfs))


def smi(programs: Path, *lines: str) -> Path:
    """A program in the place of nvidia-smi."""
    programs.mkdir(exist_ok=True)
    (programs / "nvidia-smi").write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines))
    (programs / "nvidia-smi").chmod(0o755)
    return programs


def test_a_pod_asks_the_driver_for_real_gpus(tmp_path: Path) -> None:
    sysfs, files, programs = devices(tmp_path / "sysfs", V100), tmp_path / "dev", tmp_path / "bin"
    files.mkdir()
    programs.mkdir()
    cluster = Cluster([], [], programs, files)
    with pytest.raises(AssertionError, match="nvidia-smi in the pod"):
        gpu_pod(cluster, sysfs)
    smi(programs, "00000000:3B:00.0")
    with pytest.raises(AssertionError):  # without a device file, no program of the pod opens the GPU
        gpu_pod(cluster, sysfs)
    (files / "nvidia0").touch()
    gpu_pod(cluster, sysfs)
    smi(programs, "00000000:AF:00.0")
    with pytest.raises(AssertionError):
        gpu_pod(cluster, sysfs)


def test_a_pod_without_gpus_that_sees_a_device_file_fails(tmp_path: Path) -> None:
    context, files = context_of("tacc"), tmp_path / "dev"
    files.mkdir()
    nodes = {"worker-1": {"spec": {}}, GPU_NODE: {"spec": {"taints": [{"key": "nvidia.com/gpu"}]}}}
    images = ImageOutputs(images={"pod-base": ImageReference(repository="registry/base", digest=DIGEST)})
    check: Any = cluster_checks.test_cpu_pod_sees_no_card
    arguments = (context.site, context, Cluster([], [], tmp_path, files), "check", images, (GPU_NODE,), nodes)
    check(*arguments)
    (files / "nvidia0").touch()
    with pytest.raises(AssertionError, match="nvidia0"):
        check(*arguments)


def test_images_are_the_sites_or_those_that_its_charts_pin() -> None:
    site = context_of("tacc").site
    own = ImageReference(repository=f"registry.{site.domain}:5000/strata/pod-base", digest=DIGEST)
    images = ImageOutputs(images={"pod-base": own})
    tag = load_versions().charts["nvidia-device-plugin"].image_tags[PLUGIN_IMAGE]
    plugin = container_of(f"{PLUGIN_IMAGE}:{tag}", f"{PLUGIN_IMAGE}@sha256:{'1' * 64}", "gpu")
    ours = container_of(str(own), str(own), "strata-system")
    users = container_of("docker.io/library/python:3", f"docker.io/library/python@{DIGEST}", "icicle")
    upstream = container_of("quay.io/calico/node:v3", f"quay.io/calico/node@{DIGEST}")
    check: Any = cluster_checks.test_images_come_from_the_site
    check(site, Cluster([], [plugin, ours, users, upstream]), images)
    for wrong in (
        container_of(f"{PLUGIN_IMAGE}:v0", f"{PLUGIN_IMAGE}@{DIGEST}", "gpu"),
        container_of(own.repository, f"{own.repository}@sha256:{'2' * 64}", "strata-system"),
        container_of("docker.io/library/python:3", f"docker.io/library/python@{DIGEST}", "strata-system"),
    ):
        with pytest.raises(AssertionError):
            check(site, Cluster([], [wrong]), images)


def test_cards_of_instances_and_machines() -> None:
    """By nova's flavor, or by site.yaml where the cloud hides it from members or there is none."""
    instance = {"id": "1", "name": GPU_NODE, "address": "10.10.0.9", "flavor": "g1.v100", "roles": ("gpu_node",)}
    outputs = CloudOutputs.model_validate({"instances": {GPU_NODE: instance}, "networks": {}})
    tacc, nautilus = context_of("tacc").site, context_of("nautilus").site
    for specs, expected in ((None, 1), ({"pci_passthrough:alias": "V100:2"}, 2)):
        flavor = SimpleNamespace(extra_specs=specs)
        cloud: Any = SimpleNamespace(
            compute=SimpleNamespace(get_server=lambda _, bound=flavor: SimpleNamespace(flavor=bound))
        )
        cards = cluster_checks.cards_on(GPU_NODE, tacc, outputs, lambda cloud=cloud: cloud)  # type: ignore[misc]
        assert cards == {"nvidia.com/gpu": expected}
    for name, counts in (("calit2-fiona8-1", {"nvidia.com/gpu": 8}), ("calit2-dtn-1", {})):
        assert cluster_checks.cards_on(name, nautilus, None, pytest.fail) == counts


def test_a_site_of_machines_has_nodes_to_check() -> None:
    machines = cluster_checks.node_hosts(context_of("metal").site, None)
    assert {machine.name for machine in machines} == {"control-1", "worker-1", "worker-2"}
