"""OpenStack, as users and operators see it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests
import testinfra

from strata.models import Site
from strata.models.cloud import Cloud
from strata.models.compute import Flavor, Instance
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs
from strata.verify.cards import host_cards
from strata.verify.waiting import settled

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

SERVICES = ("identity", "placement", "image", "network", "compute")
SCOPE = "aggregate_instance_extra_specs:gpu"
BUILD_SECONDS = 180.0
RESTART_SECONDS = 120.0


@pytest.fixture(scope="module")
def model(site: Site) -> Cloud:
    """The cloud as the site file describes it; skips where there is none."""
    if site.cloud is None:
        pytest.skip(f"site {site.name} has no cloud")
    return site.cloud


@pytest.fixture(scope="module")
def servers(cloud: Connection, model: Cloud, cloud_outputs: CloudOutputs) -> dict[str, Any]:
    """What nova says about each declared instance, by name."""
    return {i.name: cloud.compute.get_server(cloud_outputs.instances[i.name].id) for i in model.instances}


@pytest.fixture(scope="module")
def controller(context: SiteContext, ssh_config: str) -> Host:
    """The cloud's controller over SSH; skips where others run the cloud."""
    controllers = context.provider.hosts()
    if not controllers:
        pytest.skip(f"the cloud of site {context.site.name} is an existing one, whose controllers are out of reach")
    return testinfra.get_host(f"ssh://root@{controllers[0].address}", ssh_config=ssh_config)


def flavor_of(model: Cloud, instance: Instance) -> Flavor:
    """The flavor that an instance names."""
    return next(f for f in model.flavors if f.name == instance.flavor)


@pytest.fixture
def cards(context: SiteContext, host: Callable[[str], Host]) -> Callable[[str], dict[str, str]]:
    """Address to vendor:product of each accelerator that an instance was given, by its name."""
    return lambda name: host_cards(host(name), context.provider.pci_directories, context.site.accelerators.values())


@pytest.mark.parametrize("service", SERVICES)
def test_api_lists_its_versions(cloud: Connection, service: str) -> None:
    """The API of each OpenStack service responds and lists its versions."""
    endpoint = urlsplit(str(cloud.session.get_endpoint(service_type=service, interface="public")))
    answer = requests.get(f"{endpoint.scheme}://{endpoint.netloc}/", timeout=30)
    assert answer.status_code in (200, 300), answer.text[:200]
    versions = answer.json()["versions"]
    versions = versions["values"] if isinstance(versions, dict) else versions
    assert versions, f"{service} lists no version"
    assert all(version["id"] for version in versions)


@pytest.fixture
def administered(site: Site, model: Cloud) -> Cloud:
    """The cloud, of which the credentials show everything."""
    if not model.administrator:
        pytest.skip(f"site {site.name} has a member's credentials, to which the cloud shows no hypervisors")
    return model


def test_hypervisors_are_up(cloud: Connection, administered: Cloud) -> None:
    """Each hypervisor is up and has the CPUs and memory set in site.yaml."""

    def states() -> dict[str, tuple[str, str]]:
        return {h.name: (h.state, h.status) for h in cloud.compute.hypervisors(details=True)}

    up = {expected.name: ("up", "enabled") for expected in administered.hypervisors}
    # nova calls one down whose report is late
    assert up.items() <= settled(states, lambda found: up.items() <= found.items()).items()
    found = {h.name: h for h in cloud.compute.hypervisors(details=True)}
    for expected in administered.hypervisors:
        hypervisor = found[expected.name]
        inventory = cloud.placement.get(f"/resource_providers/{hypervisor.id}/inventories").json()["inventories"]
        assert inventory["VCPU"]["total"] == expected.vcpus
        assert inventory["MEMORY_MB"]["total"] == expected.memory.mebibytes


def test_aggregates_keep_kinds_apart(cloud: Connection, administered: Cloud) -> None:
    """Each hypervisor is in the aggregate of its accelerator type, or in the one for none."""
    kinds = {h: a.metadata["gpu"] for a in cloud.compute.aggregates() if "gpu" in a.metadata for h in a.hosts or []}
    for hypervisor in administered.hypervisors:
        assert kinds[hypervisor.name] in (list(hypervisor.accelerators) or ["none"])


def test_flavors_ask_for_their_cards(cloud: Connection, model: Cloud) -> None:
    """Each flavor has its size and requests exactly its accelerators; CPU flavors request hosts without any."""
    found = {f.name: f for f in cloud.compute.flavors(get_extra_specs=True)}
    for expected in model.flavors:
        flavor = found[expected.name]
        size = (expected.vcpus, expected.memory.mebibytes, expected.disk.gibibytes)
        assert (flavor.vcpus, flavor.ram, flavor.disk) == size
        asked = dict(p.split(":") for p in flavor.extra_specs.get("pci_passthrough:alias", "").split(",") if p)
        assert {kind: int(count) for kind, count in asked.items()} == dict(expected.accelerators)
        assert flavor.extra_specs[SCOPE] in (list(expected.accelerators) or ["none"])


def test_instances_run_where_they_should(model: Cloud, servers: dict[str, Any]) -> None:
    """Each declared instance is ACTIVE, on a hypervisor with the accelerators that it requests."""
    holders = {h.name: set(h.accelerators) for h in model.hypervisors}
    for instance in model.instances:
        server = servers[instance.name]
        assert server.status == "ACTIVE", f"{instance.name}: {server.status} {(server.fault or {}).get('message', '')}"
        if not model.administrator:
            continue  # the cloud does not say where
        wanted = set(flavor_of(model, instance).accelerators)
        held = holders[server.hypervisor_hostname]
        assert wanted <= held, f"{instance.name} runs on {server.hypervisor_hostname}, which has {held or 'no cards'}"
        if not wanted:
            assert not held, f"{instance.name} needs no card and runs on {server.hypervisor_hostname}"


def test_instances_answer_on_ssh(model: Cloud, host: Callable[[str], Host]) -> None:
    """Each declared instance accepts the operator's SSH key and has the host name set in site.yaml."""
    for instance in model.instances:
        assert host(instance.name).check_output("hostname") == instance.name


def test_gpu_instances_see_their_cards_only(
    site: Site, model: Cloud, servers: dict[str, Any], cards: Callable[[str], dict[str, str]]
) -> None:
    """A GPU instance sees exactly the PCI devices that its flavor requests; no two instances see the same one."""
    seen: Counter[tuple[str, str]] = Counter()
    checked = 0
    for instance in model.instances:
        wanted = flavor_of(model, instance).accelerators
        if not wanted:
            continue
        found = cards(instance.name)
        expected = Counter({site.accelerators[kind].pci_id: count for kind, count in wanted.items()})
        assert Counter(found.values()) == expected, instance.name
        seen.update((servers[instance.name].host_id, address) for address in found)
        checked += 1
    if not checked:
        pytest.skip("the site declares no instance with a card")
    assert [card for card, holders in seen.items() if holders > 1] == []


def test_cpu_instances_see_no_card(model: Cloud, cards: Callable[[str], dict[str, str]]) -> None:
    """A CPU instance sees no accelerator."""
    plain = [i for i in model.instances if not flavor_of(model, i).accelerators]
    if not plain:
        pytest.skip("the site declares no instance without a card")
    for instance in plain:
        assert cards(instance.name) == {}, instance.name


@pytest.fixture
def one_too_many(cloud: Connection, administered: Cloud) -> Iterator[Any]:
    """A flavor that requests one accelerator more than is free; removed after the check."""
    used: Counter[str] = Counter()
    for instance in administered.instances:
        used.update(flavor_of(administered, instance).accelerators)
    total: Counter[str] = Counter()
    for hypervisor in administered.hypervisors:
        total.update(hypervisor.accelerators)
    offered = [(f, kind) for f in administered.flavors for kind in f.accelerators if kind in total]
    if not offered:
        pytest.skip("the site has no flavor with a card")
    declared, kind = offered[0]
    name = f"strata-verify-{secrets.token_hex(4)}"
    # one CPU and little memory: nothing but the cards can be what is missing
    flavor = cloud.compute.create_flavor(name=name, vcpus=1, ram=64, disk=1)
    try:
        specs = {
            "pci_passthrough:alias": f"{kind}:{total[kind] - used[kind] + 1}",
            SCOPE: next(iter(declared.accelerators)),
        }
        cloud.compute.create_flavor_extra_specs(flavor, specs)
        yield flavor
    finally:
        cloud.compute.delete_flavor(flavor)


def test_one_card_too_many_is_refused(cloud: Connection, model: Cloud, one_too_many: Any) -> None:
    """An instance that requests one accelerator more than is free fails with nova's reason."""
    network = cloud.network.find_network(model.networks[0].name, ignore_missing=False)
    image = cloud.image.find_image(model.images[0].name, ignore_missing=False)
    server = cloud.compute.create_server(
        name=one_too_many.name, flavor_id=one_too_many.id, image_id=image.id, networks=[{"uuid": network.id}]
    )
    try:
        ended = settled(
            lambda: cloud.compute.get_server(server.id),
            lambda found: found.status == "ACTIVE" or (found.status == "ERROR" and bool(found.fault)),
            BUILD_SECONDS,
        )
        assert ended.status == "ERROR", "an instance got a card that is not there"
        assert "No valid host was found" in ended.fault["message"]
    finally:
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, interval=1, wait=int(BUILD_SECONDS))


def test_services_are_units(controller: Host, model: Cloud) -> None:
    """Each OpenStack service is an active systemd unit that restarts on failure and logs to the journal."""
    units = ["keystone", "placement", "glance", "neutron", "neutron-rpc-server", "nova-api", "nova-conductor"]
    units += ["nova-scheduler", *(f"nova-compute@{h.name}" for h in model.hypervisors)]
    names = " ".join(f"{unit}.service" for unit in units)

    def shown() -> dict[str, dict[str, str]]:
        text = controller.check_output(f"systemctl show --property=ActiveState,Restart,StandardOutput {names}")
        blocks = text.strip().split("\n\n")
        lines = zip(units, (block.splitlines() for block in blocks), strict=True)
        return {unit: dict(line.split("=", 1) for line in block) for unit, block in lines}

    state = {"ActiveState": "active", "Restart": "on-failure", "StandardOutput": "journal"}
    wrong = settled(lambda: {unit: one for unit, one in shown().items() if one != state}, lambda found: not found)
    assert wrong == {}


def test_killed_service_comes_back(controller: Host) -> None:
    """systemd restarts an OpenStack service that was killed."""
    unit = "neutron-rpc-server.service"
    before = controller.check_output("systemctl show --property=MainPID --value %s", unit)
    controller.check_output("systemctl kill --kill-whom=main --signal=KILL %s", unit)

    def shown() -> dict[str, str]:
        text = controller.check_output("systemctl show --property=ActiveState,MainPID %s", unit)
        return dict(line.split("=", 1) for line in text.splitlines())

    def restarted(found: dict[str, str]) -> bool:
        return found["ActiveState"] == "active" and found["MainPID"] not in ("0", before)

    after = settled(shown, restarted, RESTART_SECONDS)
    assert restarted(after), f"{unit} {RESTART_SECONDS:.0f} s after it was killed: {after}"
