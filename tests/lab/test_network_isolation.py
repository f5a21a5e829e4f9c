"""Security groups, port security and separate networks hold, from inside instances and from this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from strata.site.context import SiteContext
from strata_lab.controller import container_name as controller_name
from strata_lab.network import nft
from strata_lab.network.filtering import table_name
from strata_lab.network.metadata import NOVA_PORT
from strata_lab.network.routing import PUBLIC_PORTS
from strata_lab.openstack_controller import controller_address

from .healing import in_controller
from .lab_site import require_lab
from .tenants import Machine, Tenant, small_flavor, tenant, wait_until

if TYPE_CHECKING:
    from openstack.connection import Connection

pytestmark = pytest.mark.nightly

SSH, WEB = 22, 8080
"""Every instance answers on both."""
SERVE = f"python3 -m http.server {WEB} >/dev/null 2>&1"
EVERYTHING = {"remote_ip_prefix": "0.0.0.0/0"}
"""A rule that lets everybody in, by every protocol."""
INNER_PORTS = {"SSH": SSH, "metadata": NOVA_PORT, "database": 3306, "message queue": 5672, "memcached": 11211}
"""Of the controller; the last three on its loopback only."""
STREAM = """
import socket, sys
stream = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
print(stream.getsockname()[1], flush=True)
input()
stream.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
print(stream.recv(4))
"""
LISTEN = """
import errno, socket, sys
listening = []
for port in sys.argv[2:]:
    try:
        listening.append(socket.create_server((sys.argv[1], int(port))))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
print("ready", flush=True)
sys.stdin.read()
"""


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
    strangers: Any


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection) -> Iterator[Place]:
    """Three small instances, removed after the last test."""
    require_lab(context)  # instances are looked into by podman
    site = context.site
    assert site.cloud is not None
    assert site.cloud.control_network is not None
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
            strangers=strangers,
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


@contextlib.contextmanager
def inside(container: str, code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python program in a container and its first line; its standard input is closed in the end."""
    command = ["podman", "exec", "-i", container, "python3", "-c", code, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline().strip()
        assert first, process.stderr.read()
        yield process, first


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
        stream = (place.client.container, STREAM, server, str(WEB))
        with inside(*stream) as (unhindered, one), inside(*stream) as (held, other):
            ends = {f"{place.client.address}:{port}" for port in (one, other)}
            wait_until(lambda: ends <= _established(place.server))
            assert unhindered.communicate("\n", timeout=60)[0].strip() == "b'HTTP'"
            place.blue.cloud.network.delete_security_group_rule(rule.id)
            wait_until(lambda: not can_connect(server, WEB))
            out, error = held.communicate("\n", timeout=60)
        assert out == ""
        assert "timed out" in error


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
    server = place.server.address
    client.run("ip", "address", "add", f"{foreign}/28", "dev", "eth0")
    try:
        with opened(place.blue, place.servers, protocol="icmp"):
            wait_until(lambda: client.pings(server))
            assert not client.pings(server, "-I", foreign)
            network.update_port(client.port_id, security_groups=[], is_port_security_enabled=False)
            try:
                wait_until(lambda: client.pings(server, "-I", foreign))
            finally:
                network.update_port(client.port_id, is_port_security_enabled=True, security_groups=[place.clients.id])
            wait_until(lambda: not client.pings(server, "-I", foreign))
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


def test_networks_of_two_projects_are_apart(place: Place, can_connect: Callable[[str, int], bool]) -> None:
    """Not even groups that let everybody in make a way between networks that no router joins, in either direction."""
    server, stranger = place.server, place.stranger
    with opened(place.blue, place.servers, **EVERYTHING), opened(place.green, place.strangers, **EVERYTHING):
        # both are open, and both find what leads out of their networks
        wait_until(lambda: all(can_connect(m.address, WEB) for m in (server, stranger)))
        wait_until(lambda: place.client.reaches(server.address, WEB) and place.client.pings(server.address))
        wait_until(lambda: server.pings(place.blue_subnet.gateway_ip))
        wait_until(lambda: stranger.pings(place.green_subnet.gateway_ip))
        for one, other in ((stranger, server), (server, stranger)):
            assert not one.reaches(other.address, WEB)
            assert not one.pings(other.address)


def test_instances_do_not_reach_the_controllers_inside(
    place: Place, context: SiteContext, external: str, can_connect: Callable[[str, int], bool]
) -> None:
    """Who may call OpenStack's APIs does not reach what else listens on the controller, nor this machine's own ports.

    Where a service of the controller listens on its loopback only, another program replaces it at the address that
    instances see: what keeps them out is the border of their networks.
    """
    client, controller, gateway = place.client, controller_address(context.site), place.blue_subnet.gateway_ip
    ports = list(map(str, INNER_PORTS.values()))
    with (
        place.blue.router(place.blue_subnet, external_network_id=external),
        inside(controller_name(context.site), LISTEN, controller, *ports),
        socket.create_server((gateway, 0)) as own,
    ):
        wait_until(lambda: all(client.reaches(controller, port) for port in PUBLIC_PORTS))
        wait_until(lambda: client.pings(gateway))
        for name, port in INNER_PORTS.items():
            # fails where nothing listens, as does the next
            in_controller(context, "bash", "-c", f"</dev/tcp/{'127.0.0.1' if port != NOVA_PORT else controller}/{port}")
            wait_until(partial(can_connect, controller, port))
            assert not client.reaches(controller, port), name
        own_port = own.getsockname()[1]
        assert can_connect(gateway, own_port)
        assert not client.reaches(gateway, own_port)


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
    """Killed, it is started again and goes on; what somebody deletes of its rules is put back, and closed again."""
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
    table = table_name(context.site.name)
    tables = {("bridge", table): ""}
    before_deletion = nft.listing(tables)
    agent = process()
    # stopped meanwhile: it may be back at once
    os.kill(agent, signal.SIGSTOP)
    try:
        nft.remove(("bridge",), table)
        assert nft.listing(tables) == ""
        wait_until(lambda: can_connect(place.server.address, WEB))
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_until(lambda: not can_connect(place.server.address, WEB))
    wait_until(lambda: nft.listing(tables) == before_deletion != "")


def _who_answers(address: str) -> str | None:
    """Name of the instance that answers this machine; None where nobody does."""
    try:
        with urllib.request.urlopen(f"http://{address}:{WEB}/", timeout=1) as answer:
            return str(answer.read().decode().strip())
    except OSError:
        return None


def _established(machine: Machine) -> set[str]:
    """The other ends of a machine's TCP connections, as address:port."""
    lines = machine.run("ss", "--tcp", "--numeric", "--no-header", "state", "established").splitlines()
    return {line.split()[3] for line in lines}
