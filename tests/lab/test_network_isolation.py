"""Security groups, port security and separate networks hold, from inside instances and from this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from strata.engine.context import SiteContext

from .tenants import Machine, Tenant, small_flavor, tenant, wait_until

if TYPE_CHECKING:
    from openstack.connection import Connection

SSH, WEB = 22, 8080
"""Every instance answers on both."""
SERVE = f"python3 -m http.server {WEB} >/dev/null 2>&1"


@dataclass(frozen=True)
class Place:
    """Two projects; the first has `server` and `client` on one network, the second `stranger` on its own."""

    blue: Tenant
    green: Tenant
    blue_subnet: Any
    green_subnet: Any
    server: Machine
    client: Machine
    stranger: Machine
    servers: Any
    clients: Any


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection) -> Iterator[Place]:
    """Three small instances, removed after the last test."""
    site = context.site
    assert site.cloud is not None
    assert site.cloud.control_network is not None
    if site.cloud.deployment != "lab":
        pytest.skip(f"site {site.name} is no lab: instances are looked into by podman")
    # of the range for tests between machines, another part for each site
    part = f"198.18.{site.cloud.control_network.network_address.packed[1]}"
    image = cloud.image.find_image(site.cloud.images[0].name, ignore_missing=False)
    plain = next(f.name for f in site.cloud.flavors if not f.accelerators)
    with (
        small_flavor(cloud, plain) as flavor,
        tenant(cloud, site.name) as blue,
        tenant(cloud, site.name) as green,
    ):
        blue_subnet, green_subnet = blue.network("blue", f"{part}.0/28"), green.network("green", f"{part}.16/28")
        servers, clients, strangers = blue.group("servers"), blue.group("clients"), green.group("strangers")
        ports = {"server": blue.port(blue_subnet, [servers]), "client": blue.port(blue_subnet, [clients])}
        stranger = green.machines(image.id, flavor, stranger=green.port(green_subnet, [strangers]))
        machines = blue.machines(image.id, flavor, **ports) | stranger
        for machine in machines.values():
            machine.run("sh", "-c", f"mkdir /srv/web && cd /srv/web && hostname >index.html && {SERVE} &")
            wait_until(lambda machine=machine: machine.reaches("127.0.0.1", SSH))  # type: ignore[misc]
        yield Place(
            blue,
            green,
            blue_subnet,
            green_subnet,
            server=machines["server"],
            client=machines["client"],
            stranger=machines["stranger"],
            servers=servers,
            clients=clients,
        )


@pytest.fixture(scope="module")
def external(context: SiteContext, cloud: Connection) -> str:
    """Id of the site's external network."""
    assert context.site.cloud is not None
    name = context.site.cloud.external_network
    if name is None:
        pytest.skip(f"site {context.site.name} has no external network")
    return str(cloud.network.find_network(name, ignore_missing=False).id)


@contextlib.contextmanager
def opened(owner: Tenant, group: Any, **properties: Any) -> Iterator[Any]:
    """A rule for the time of a test."""
    rule = owner.rule(group, **properties)
    try:
        yield rule
    finally:
        owner.cloud.network.delete_security_group_rule(rule.id, ignore_missing=True)


def test_what_no_group_opens_is_closed(place: Place, can_connect: Callable[[str, int], bool]) -> None:
    """A port that answers inside is closed to a neighbour on the same network and to this machine."""
    wait_until(lambda: place.server.reaches("127.0.0.1", WEB))
    for port in (SSH, WEB):
        assert not place.client.reaches(place.server.address, port)
        assert not can_connect(place.server.address, port)


def test_a_rule_opens_one_port_at_once_and_its_end_closes_it(
    place: Place, can_connect: Callable[[str, int], bool]
) -> None:
    """The instance is not touched; what runs over a connection ends with the rule."""
    server = place.server.address
    with opened(place.blue, place.servers, protocol="tcp", port_range_min=WEB, port_range_max=WEB) as rule:
        wait_until(lambda: can_connect(server, WEB))
        wait_until(lambda: place.client.reaches(server, WEB))
        assert not can_connect(server, SSH)
        stream = f"import socket; s = socket.create_connection(('{server}', {WEB}), timeout=2); input(); "
        stream += "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(4))"
        command = ["podman", "exec", "-i", place.client.container, "python3", "-c", stream]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as held:
            wait_until(
                lambda: "ESTAB" in place.server.run("ss", "--tcp", "--no-header", "state", "established") or True
            )
            place.blue.cloud.network.delete_security_group_rule(rule.id)
            wait_until(lambda: not can_connect(server, WEB))
            out, error = held.communicate(b"\n", timeout=20)
        assert out == b""
        assert b"timed out" in error


def test_a_remote_group_lets_its_members_in(place: Place, can_connect: Callable[[str, int], bool]) -> None:
    """Only members come in; who leaves the group is shut out at once."""
    network = place.blue.cloud.network
    server = place.server.address
    rule = {"protocol": "tcp", "port_range_min": WEB, "port_range_max": WEB, "remote_group_id": place.clients.id}
    with opened(place.blue, place.servers, **rule):
        wait_until(lambda: place.client.reaches(server, WEB))
        assert not can_connect(server, WEB)
        network.update_port(place.client.port_id, security_groups=[])
        try:
            wait_until(lambda: not place.client.reaches(server, WEB))
        finally:
            network.update_port(place.client.port_id, security_groups=[place.clients.id])
        wait_until(lambda: place.client.reaches(server, WEB))


def test_an_instance_cannot_take_anothers_address(place: Place) -> None:
    """What it sends from an address that is not its port's goes nowhere, until port security is turned off."""
    network, client = place.blue.cloud.network, place.client
    subnet, _, _ = client.address.rpartition(".")
    # nobody's: neither the pool's ends nor one of the two machines
    foreign = next(
        f"{subnet}.{n}" for n in range(10, 14) if f"{subnet}.{n}" not in (client.address, place.server.address)
    )
    ping = ["ping", "-c1", "-W1", "-I", foreign, place.server.address]
    client.run("ip", "address", "add", f"{foreign}/28", "dev", "eth0")
    try:
        with opened(place.blue, place.servers, protocol="icmp"):
            wait_until(lambda: _succeeds(client, "ping", "-c1", "-W1", place.server.address))
            assert not _succeeds(client, *ping)
            network.update_port(client.port_id, security_groups=[], is_port_security_enabled=False)
            try:
                wait_until(lambda: _succeeds(client, *ping))
            finally:
                network.update_port(client.port_id, is_port_security_enabled=True, security_groups=[place.clients.id])
            wait_until(lambda: not _succeeds(client, *ping))
    finally:
        client.run("ip", "address", "delete", f"{foreign}/28", "dev", "eth0")


def test_without_port_security_everything_is_open(place: Place, can_connect: Callable[[str, int], bool]) -> None:
    """Port security turned off opens every port; turned on again, none."""
    network, server = place.blue.cloud.network, place.server
    network.update_port(server.port_id, security_groups=[], is_port_security_enabled=False)
    try:
        wait_until(lambda: can_connect(server.address, SSH) and place.client.reaches(server.address, WEB))
    finally:
        network.update_port(server.port_id, is_port_security_enabled=True, security_groups=[place.servers.id])
    wait_until(lambda: not can_connect(server.address, SSH))


def test_networks_of_two_projects_are_apart(place: Place) -> None:
    """Not even a group that lets everybody in makes a way between networks that no router joins."""
    with opened(place.blue, place.servers, protocol="tcp", remote_ip_prefix="0.0.0.0/0"):
        wait_until(lambda: place.client.reaches(place.server.address, WEB))
        assert not place.stranger.reaches(place.server.address, WEB)


def test_instances_do_not_reach_the_controllers_inside(place: Place, context: SiteContext) -> None:
    """SSH, databases and message queue of the controller and this machine's own ports are not theirs."""
    from strata.inventory.build import controller_address

    controller = controller_address(context.site)
    gateway = place.blue_subnet.gateway_ip
    for address, port in ((controller, SSH), (controller, 8775), (gateway, SSH)):
        assert not place.client.reaches(address, port)


def test_a_floating_ip_answers_and_moves(place: Place, external: str) -> None:
    """The address answers on this machine, follows its association, and answers nobody afterwards."""
    blue, server, client = place.blue, place.server, place.client
    web = {"protocol": "tcp", "port_range_min": WEB, "port_range_max": WEB}
    with (
        opened(blue, place.servers, **web),
        opened(blue, place.clients, **web),
        blue.router(place.blue_subnet, external_network_id=external),
        blue.floating_ip(external, server.port_id) as address,
    ):
        where = address.floating_ip_address
        wait_until(lambda: _who_answers(where) == "test-server")
        wait_until(lambda: blue.cloud.network.get_ip(address.id).status == "ACTIVE")
        # the neighbour goes by the router and back; a network that no router leads out of has no way there
        wait_until(lambda: client.fetch(f"http://{where}:{WEB}/").strip() == "test-server")
        assert not place.stranger.reaches(where, WEB)
        with place.green.router(place.green_subnet, external_network_id=external):
            wait_until(lambda: place.stranger.reaches(where, WEB))
        blue.cloud.network.update_ip(address, port_id=client.port_id)
        wait_until(lambda: _who_answers(where) == "test-client")
        blue.cloud.network.update_ip(address, port_id=None)
        wait_until(lambda: _who_answers(where) is None)


def test_a_router_joins_two_networks(place: Place) -> None:
    """With a router between them they reach each other, by their own addresses; without it no more."""
    only_stranger = {"protocol": "tcp", "remote_ip_prefix": f"{place.stranger.address}/32"}
    with opened(place.blue, place.servers, **only_stranger):
        with place.blue.router(place.blue_subnet, place.green_subnet):
            wait_until(lambda: place.stranger.reaches(place.server.address, WEB))
            assert not place.client.reaches(place.server.address, WEB)
        wait_until(lambda: not place.stranger.reaches(place.server.address, WEB))


def test_each_instance_finds_its_own_metadata(place: Place) -> None:
    """Whatever an instance claims to be."""
    url = "http://169.254.169.254/openstack/latest/meta_data.json"
    for machine in (place.server, place.client, place.stranger):
        assert json.loads(machine.fetch(url))["uuid"] == machine.id
    claims = {"X_Instance_ID": place.server.id, "X_Tenant_ID": place.blue.project_id}
    claims |= {"X_Forwarded_For": place.server.address, "X_Instance_ID_Signature": "0" * 64}
    assert json.loads(place.stranger.fetch(url, **claims))["uuid"] == place.stranger.id


def test_the_agent_comes_back(place: Place, context: SiteContext, can_connect: Callable[[str, int], bool]) -> None:
    """Killed, it is started again and goes on; what somebody deletes of its rules is put back."""
    name = f"strata-{context.site.name}-network"
    inspect = ["podman", "container", "inspect", "--format", "{{.State.Pid}}", name]

    def process() -> int:
        return int(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)

    before = process()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: process() not in (0, before))
    with opened(place.blue, place.servers, protocol="tcp", port_range_min=WEB, port_range_max=WEB):
        wait_until(lambda: can_connect(place.server.address, WEB))
    wait_until(lambda: not can_connect(place.server.address, WEB))
    subprocess.run(["nft", "delete", "table", "bridge", f"strata-{context.site.name}"], check=True)
    wait_until(lambda: not can_connect(place.server.address, WEB))


def _who_answers(address: str) -> str | None:
    """Name of the instance that answers this machine; None where nobody does."""
    try:
        with urllib.request.urlopen(f"http://{address}:{WEB}/", timeout=1) as answer:
            return str(answer.read().decode().strip())
    except OSError:
        return None


def _succeeds(machine: Machine, *command: str) -> bool:
    try:
        machine.run(*command)
    except AssertionError:
        return False
    return True
