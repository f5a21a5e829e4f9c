"""OpenStack, as users and operators see it."""

from __future__ import annotations

import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import testinfra

from strata.cloud.arguments import flavor_arguments
from strata.cloud.card_placement import countable_kind
from strata.cloud.flavor import GPU_KEY, WITHOUT, FlavorArgs
from strata.cloud.flavor_cards import flavor_cards, resource_class
from strata.models.cloud import Cloud
from strata.models.compute import Flavor, Instance
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import nvidia_kinds
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs
from strata.verify.cards import any_cards, host_devices, known_cards
from strata.verify.needs import (
    ADMINISTRATOR,
    AGGREGATES,
    CARD_INSTANCES,
    CLOUD,
    COUNTED_CARDS,
    FLAVORS,
    HYPERVISORS,
    INSTANCES,
    OPENSTACK_UNITS,
    PASSED_CARDS,
    PLAIN_INSTANCES,
    needs,
)
from strata.verify.waiting import settled

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = needs(CLOUD)
SERVICES = (
    "identity",
    pytest.param("placement", marks=needs(ADMINISTRATOR)),  # a member needs none, and few clouds show it to members
    "image",
    "network",
    "compute",
)
VERSION = re.compile(r"(?<!/)/v[0-9][^/]*(/.*)?$")
"""The end of a service's URL that selects a version of its API."""
TREES = "1.14"
"""Of placement's API: resource providers in trees, one below the hypervisor's for each card."""
BUILD_SECONDS = 180.0
RESTART_SECONDS = 120.0


@pytest.fixture(scope="module")
def model(site: Site) -> Cloud:
    """The cloud as the site file describes it."""
    assert site.cloud is not None
    return site.cloud


@pytest.fixture(scope="module")
def servers(cloud: Connection, model: Cloud, cloud_outputs: CloudOutputs | None) -> dict[str, Any]:
    """What nova reports about each declared instance, by name."""
    assert cloud_outputs is not None
    return {i.name: cloud.compute.get_server(cloud_outputs.instances[i.name].id) for i in model.instances}


@pytest.fixture(scope="module")
def controller(context: SiteContext, ssh_config: str) -> Host:
    """The cloud's controller over SSH."""
    return testinfra.get_host(f"ssh://root@{context.provider.hosts()[0].address}", ssh_config=ssh_config)


def flavor_of(model: Cloud, instance: Instance) -> Flavor:
    """The flavor that an instance names."""
    return next(f for f in model.flavors if f.name == instance.flavor)


@pytest.mark.parametrize("service", SERVICES)
def test_api_lists_its_versions(cloud: Connection, service: str) -> None:
    """The API of each OpenStack service responds and lists its versions."""
    endpoint = cloud.endpoint_for(service)
    assert endpoint, f"the catalog of the cloud lists no {service}"
    # the session trusts the CA of clouds.yaml
    answer = cloud.session.get(f"{VERSION.sub('', endpoint.rstrip('/'))}/", authenticated=False, raise_exc=False)
    assert answer.status_code in (200, 300), answer.text[:200]
    versions = answer.json()["versions"]
    versions = versions["values"] if isinstance(versions, dict) else versions
    assert versions, f"{service} lists no version"
    assert all(version["id"] for version in versions)


@needs(HYPERVISORS)
def test_hypervisors_are_up(cloud: Connection, model: Cloud) -> None:
    """Each hypervisor is up and has at least the CPUs and memory set in site.yaml."""

    def states() -> dict[str, tuple[str, str]]:
        return {h.name: (h.state, h.status) for h in cloud.compute.hypervisors(details=True)}

    up = {expected.name: ("up", "enabled") for expected in model.hypervisors}
    # nova calls one down whose report is late
    assert up.items() <= settled(states, lambda current: up.items() <= current.items()).items()
    by_name = {h.name: h for h in cloud.compute.hypervisors(details=True)}
    for expected in model.hypervisors:
        hypervisor = by_name[expected.name]
        inventory = cloud.placement.get(f"/resource_providers/{hypervisor.id}/inventories").json()["inventories"]
        # dedicated CPUs have a class of their own, and a hypervisor of dedicated ones only has no others
        cpus = sum(inventory[kind]["total"] for kind in ("VCPU", "PCPU") if kind in inventory)
        assert cpus >= expected.vcpus, f"{expected.name} has {cpus} CPUs, site.yaml counts on {expected.vcpus}"
        memory, declared = inventory["MEMORY_MB"]["total"], expected.memory.mebibytes
        assert memory >= declared, f"{expected.name} has {memory} MiB, site.yaml counts on {declared} MiB"


@needs(AGGREGATES)
def test_aggregates_keep_kinds_apart(cloud: Connection, model: Cloud) -> None:
    """Each hypervisor is in the aggregates of its accelerator types, or in the one for none."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for aggregate in cloud.compute.aggregates():
        for name in aggregate.hosts or []:
            kinds[name].update({aggregate.metadata[GPU_KEY]} if GPU_KEY in aggregate.metadata else ())
    ours = {WITHOUT, *(kind for hypervisor in model.hypervisors for kind in hypervisor.accelerators)}
    for hypervisor in model.hypervisors:
        assert kinds[hypervisor.name] & ours == (set(hypervisor.accelerators) or {WITHOUT}), hypervisor.name


@needs(FLAVORS)
def test_flavors_ask_for_their_cards(site: Site, cloud: Connection, model: Cloud) -> None:
    """Each flavor has its size and requests exactly its accelerators; of those that Strata creates, CPU flavors request
    hosts without any, where there are some."""
    flavors = {f.name: f for f in cloud.compute.flavors(get_extra_specs=True)}
    for expected, arguments in zip(model.flavors, flavor_arguments(model), strict=True):
        assert expected.name in flavors, f"the cloud shows no flavor {expected.name}"
        flavor = flavors[expected.name]
        size = (expected.vcpus, expected.memory.mebibytes, expected.disk.gibibytes)
        assert (flavor.vcpus, flavor.ram, flavor.disk) == size, expected.name
        specs = dict(flavor.extra_specs or {})
        cards = {kind: count for kind, count in expected.accelerators.items() if count}
        assert dict(flavor_cards(specs, site.accelerators.values(), expected.aliases)) == cards, expected.name
        if not expected.existing:  # whoever made the others decides where their instances run
            assert arguments.extra_specs().items() <= specs.items(), expected.name


@needs(INSTANCES)
def test_instances_run_where_they_should(model: Cloud, servers: dict[str, Any]) -> None:
    """Each declared instance is ACTIVE, on a hypervisor with the accelerators that it requests."""
    holders = {h.name: set(h.accelerators) for h in model.hypervisors} if model.administrator else {}
    apart = {f.name: f.aggregate == WITHOUT and not f.existing for f in flavor_arguments(model)}
    for instance in model.instances:
        server = servers[instance.name]
        assert server.status == "ACTIVE", f"{instance.name}: {server.status} {(server.fault or {}).get('message', '')}"
        if not holders:
            continue  # the cloud does not say where
        where = server.hypervisor_hostname
        assert where in holders, f"{instance.name} runs on {where}, which cloud.hypervisors does not list"
        needed, held = set(flavor_of(model, instance).accelerators), holders[where]
        assert needed <= held, f"{instance.name} runs on {where}, which has {held or 'no cards'}"
        if apart[instance.flavor]:
            assert not held, f"{instance.name} needs no card and runs on {where}"


@needs(INSTANCES)
def test_instances_answer_on_ssh(model: Cloud, host: Callable[[str], Host]) -> None:
    """Each declared instance accepts the operator's SSH key and has the host name set in site.yaml."""
    for instance in model.instances:
        assert host(instance.name).check_output("hostname") == instance.name


@needs(CARD_INSTANCES)
def test_gpu_instances_see_their_cards_only(
    context: SiteContext, model: Cloud, servers: dict[str, Any], host: Callable[[str], Host]
) -> None:
    """A GPU instance sees exactly the PCI devices that its flavor requests; no two instances see the same one."""
    kinds, seen = context.site.accelerators, Counter[tuple[str, str]]()
    for instance in model.instances:
        requested = flavor_of(model, instance).accelerators
        if not requested:
            continue
        cards = known_cards(host_devices(host(instance.name), context.provider.pci_directories), kinds.values())
        expected = Counter({kinds[kind].pci_id: count for kind, count in requested.items()})
        assert Counter(cards.values()) == expected, instance.name
        if context.site.simulates_accelerators:
            seen.update((servers[instance.name].host_id, address) for address in cards)
        elif "gpu_node" in instance.roles and set(requested).intersection(nvidia_kinds(context.site)):
            # an instance numbers its PCI devices itself: only the GPU identifies it
            listed = host(instance.name).check_output("nvidia-smi --query-gpu=uuid --format=csv,noheader")
            seen.update(("uuid", line.strip()) for line in listed.splitlines())
    assert [card for card, holders in seen.items() if holders > 1] == []


@needs(PLAIN_INSTANCES)
def test_cpu_instances_see_no_card(context: SiteContext, model: Cloud, host: Callable[[str], Host]) -> None:
    """A CPU instance sees no accelerator, neither one of the site's kinds nor another one of their vendors."""
    for instance in model.instances:
        if not flavor_of(model, instance).accelerators:
            devices = host_devices(host(instance.name), context.provider.pci_directories)
            assert any_cards(devices, context.site.accelerators.values()) == {}, instance.name


@needs(COUNTED_CARDS)
def test_placement_counts_the_cards_of_instances(
    cloud: Connection, site: Site, model: Cloud, servers: dict[str, Any]
) -> None:
    """Placement has each card of the hypervisors, and counts for each instance the cards that its flavor requests."""
    classes = {kind: resource_class(card) for kind, card in site.accelerators.items()}

    def cards(resources: Mapping[str, int]) -> Counter[str]:
        return Counter({name: count for name, count in resources.items() if name in classes.values()})

    ids = {hypervisor.name: hypervisor.id for hypervisor in cloud.compute.hypervisors(details=True)}
    for hypervisor in model.hypervisors:
        declared = {classes[kind]: count for kind, count in hypervisor.accelerators.items()}
        tree = cloud.placement.get(f"/resource_providers?in_tree={ids[hypervisor.name]}", microversion=TREES).json()
        there: Counter[str] = Counter()
        for provider in tree["resource_providers"]:
            answer = cloud.placement.get(f"/resource_providers/{provider['uuid']}/inventories").json()
            there += cards({name: inventory["total"] for name, inventory in answer["inventories"].items()})
        assert there == declared, f"{hypervisor.name}: placement has {dict(there)}, site.yaml {declared}"
    for instance in model.instances:
        flavor = flavor_of(model, instance)
        requested = Counter({classes[kind]: count for kind, count in flavor.accelerators.items() if count})
        answer = cloud.placement.get(f"/allocations/{servers[instance.name].id}").json()
        held: Counter[str] = Counter()
        for allocation in answer["allocations"].values():
            held += cards(allocation["resources"])
        assert held == requested, f"{instance.name}: placement counts {dict(held)}"


@pytest.fixture
def boot_image(context: SiteContext, cloud: Connection, model: Cloud) -> Any:
    """The image that the first instance boots."""
    known = context.provider.image_id(model.images[0])  # its name may be that of a later upload too
    return cloud.image.find_image(known or model.images[0].name, ignore_missing=False)


@pytest.fixture
def one_too_many(cloud: Connection, model: Cloud, servers: dict[str, Any], boot_image: Any) -> Iterator[Any]:
    """A flavor that requests one accelerator more than any hypervisor has free; removed after the check."""
    kind = countable_kind(model)
    assert kind is not None, "the check needs such a kind"
    free = {hypervisor.name: hypervisor.accelerators.get(kind, 0) for hypervisor in model.hypervisors}
    for instance in model.instances:
        if (where := servers[instance.name].hypervisor_hostname) in free:
            free[where] -= flavor_of(model, instance).accelerators.get(kind, 0)
    declared = next(flavor for flavor in flavor_arguments(model) if kind in flavor.accelerators)
    name = f"strata-verify-{secrets.token_hex(4)}"
    # one CPU, and what the image needs: nothing but the cards can be what is missing
    disk = max(1, int(boot_image.min_disk or 0), -(-int(boot_image.virtual_size or 0) // 2**30))
    flavor = cloud.compute.create_flavor(name=name, vcpus=1, ram=max(64, int(boot_image.min_ram or 0)), disk=disk)
    try:
        # whoever made an existing flavor placed its instances otherwise
        aggregate = None if declared.existing else declared.aggregate
        too_many = FlavorArgs(name, 1, 64, 1, {kind: max(free.values()) + 1}, aggregate)
        cloud.compute.create_flavor_extra_specs(flavor, too_many.extra_specs())
        yield flavor
    finally:
        cloud.compute.delete_flavor(flavor)


@needs(PASSED_CARDS)
def test_one_card_too_many_is_refused(cloud: Connection, model: Cloud, boot_image: Any, one_too_many: Any) -> None:
    """An instance that requests one accelerator more than is free fails with nova's reason."""
    network = cloud.network.find_network(model.networks[0].name, ignore_missing=False)
    server = cloud.compute.create_server(
        name=one_too_many.name, flavor_id=one_too_many.id, image_id=boot_image.id, networks=[{"uuid": network.id}]
    )
    try:
        ended = settled(
            lambda: cloud.compute.get_server(server.id),
            lambda server: server.status == "ACTIVE" or (server.status == "ERROR" and bool(server.fault)),
            BUILD_SECONDS,
        )
        assert ended.status == "ERROR", "an instance got a card that is not there"
        assert "No valid host was found" in ended.fault["message"]
    finally:
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, interval=1, wait=int(BUILD_SECONDS))


@needs(OPENSTACK_UNITS)
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
    wrong = settled(
        lambda: {unit: actual for unit, actual in shown().items() if actual != state}, lambda wrong: not wrong
    )
    assert wrong == {}


@needs(OPENSTACK_UNITS)
def test_killed_service_comes_back(controller: Host) -> None:
    """systemd restarts an OpenStack service that was killed."""
    unit = "neutron-rpc-server.service"
    before = controller.check_output("systemctl show --property=MainPID --value %s", unit)
    controller.check_output("systemctl kill --kill-whom=main --signal=KILL %s", unit)

    def shown() -> dict[str, str]:
        text = controller.check_output("systemctl show --property=ActiveState,MainPID %s", unit)
        return dict(line.split("=", 1) for line in text.splitlines())

    def restarted(properties: dict[str, str]) -> bool:
        return properties["ActiveState"] == "active" and properties["MainPID"] not in ("0", before)

    after = settled(shown, restarted, RESTART_SECONDS)
    assert restarted(after), f"{unit} {RESTART_SECONDS:.0f} s after it was killed: {after}"
