"""Projects of their own with small instances, for tests of what keeps tenants apart."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_bench.waiting import eventually

if TYPE_CHECKING:
    from openstack.connection import Connection

BUILD_SECONDS = 300.0
ANSWER_SECONDS = 1.5
"""How long a connection is given; on one machine it takes a millisecond."""
APPLY_SECONDS = 120.0
"""How long a change may take until it holds: a quarter of a second on an idle machine, more where tests compete."""

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
    print("open")
except OSError as error:
    print("closed", type(error).__name__)
"""


def wait_until(what: Callable[[], bool], seconds: float = APPLY_SECONDS) -> float:
    """Asks repeatedly; returns after how many seconds it was so.

    Raises:
        AssertionError: it never was.
    """
    return eventually(what, seconds, "the cloud's networks are so", pause=0.1)


@dataclass(frozen=True)
class Machine:
    """A running instance.

    Args:
        id: nova's.
        port_id: of its only port.
        address: of that port.
        container: podman's name of it.
    """

    id: str
    port_id: str
    address: str
    container: str

    def run(self, *command: str, stdin: str | None = None, timeout: float = 180) -> str:
        """Runs a command inside, not over the network; returns its output.

        Raises:
            AssertionError: the command failed.
        """
        done = subprocess.run(
            ["podman", "exec", *(["-i"] if stdin else []), self.container, *command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def process(self) -> int:
        """Process id of its first process on this machine; 0 where it does not run."""
        inspect = ["podman", "container", "inspect", "--format", "{{.State.Pid}}", self.container]
        return int(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)

    def fetch(self, url: str, **headers: str) -> str:
        """What a URL answers, asked from inside."""
        options = [
            part for name, value in headers.items() for part in ("--header", f"{name.replace('_', '-')}: {value}")
        ]
        return self.run("curl", "--silent", "--show-error", "--max-time", "10", *options, url)

    def reaches(self, address: str, port: int) -> bool:
        """Whether TCP connects from inside."""
        return self.run("python3", "-c", CONNECT, address, str(port), str(ANSWER_SECONDS)).startswith("open")

    def pings(self, address: str, *options: str) -> bool:
        """Whether an address answers one ICMP echo request from inside."""
        command = ["podman", "exec", self.container, "ping", "-c1", "-W1", *options, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        # 1: no answer; all else is not a finding about the network
        assert done.returncode in (0, 1), done.stderr
        return done.returncode == 0


@dataclass
class Tenant:
    """A project with what was made in it, removed in the opposite order.

    Args:
        cloud: inside the project.
        project_id: keystone's.
        site_name: names containers.
    """

    cloud: Connection
    project_id: str
    site_name: str
    _cleanup: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def network(self, name: str, cidr: str) -> Any:
        """A network with one subnet; returns the subnet."""
        network = self.cloud.network.create_network(name=name)
        self._cleanup.callback(self.cloud.network.delete_network, network.id)
        return self.cloud.network.create_subnet(network_id=network.id, name=name, cidr=cidr, ip_version=4)

    def group(self, name: str) -> Any:
        """A security group whose members may send and take answers only."""
        group = self.cloud.network.create_security_group(name=name)
        self._cleanup.callback(self.cloud.network.delete_security_group, group.id)
        return group

    def rule(self, group: Any, **properties: Any) -> Any:
        """Opens something for all members of a group."""
        return self.cloud.network.create_security_group_rule(
            security_group_id=group.id, direction="ingress", ether_type="IPv4", **properties
        )

    def port(self, subnet: Any, groups: list[Any]) -> Any:
        """A port."""
        port = self.cloud.network.create_port(
            network_id=subnet.network_id, security_groups=[group.id for group in groups]
        )
        self._cleanup.callback(self.cloud.network.delete_port, port.id)
        return port

    @contextlib.contextmanager
    def router(self, *subnets: Any, external_network_id: str | None = None) -> Iterator[Any]:
        """A router between subnets, and to the outside where that is named, for the time of a test."""
        gateway = {"network_id": external_network_id} if external_network_id else None
        router = self.cloud.network.create_router(name="test", external_gateway_info=gateway)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self.cloud.network.delete_router, router.id)
            for subnet in subnets:
                self.cloud.network.add_interface_to_router(router, subnet=subnet.id)
                cleanup.callback(self.cloud.network.remove_interface_from_router, router, subnet=subnet.id)
            yield router

    @contextlib.contextmanager
    def floating_ip(self, external_network_id: str, port_id: str) -> Iterator[Any]:
        """A floating IP of a port, for the time of a test."""
        address = self.cloud.network.create_ip(floating_network_id=external_network_id, port_id=port_id)
        try:
            yield address
        finally:
            self.cloud.network.delete_ip(address.id)

    def machines(
        self, image_id: str, flavor_id: str, *, options: dict[str, Any] | None = None, **ports: Any
    ) -> dict[str, Machine]:
        """Instances on ports, made in parallel, and gone again before anything else.

        Args:
            image_id: glance's.
            flavor_id: nova's.
            options: further properties of each server.
            ports: by name of the instance.
        """
        servers = {}
        for name, port in ports.items():
            server = self.cloud.compute.create_server(
                name=f"test-{name}",
                image_id=image_id,
                flavor_id=flavor_id,
                networks=[{"port": port.id}],
                **(options or {}),
            )
            self._cleanup.callback(self.cloud.compute.wait_for_delete, server, wait=BUILD_SECONDS)
            servers[name] = server
        for server in servers.values():
            self._cleanup.callback(self.cloud.compute.delete_server, server.id, ignore_missing=True)
        by_name = {}
        for name, server in servers.items():
            self.cloud.compute.wait_for_server(server, wait=BUILD_SECONDS, interval=0.3)
            address = ports[name].fixed_ips[0]["ip_address"]
            container = f"strata-{self.site_name}-{server.id}"
            by_name[name] = Machine(server.id, ports[name].id, address, container)
        return by_name


@contextlib.contextmanager
def tenant(cloud: Connection, site_name: str) -> Iterator[Tenant]:
    """A project of its own, and nothing left of it in the end."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    identity: Any = cloud.identity  # version 3; its types allow for version 2
    project = identity.create_project(name=name, description="a test of Strata")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(identity.delete_project, project.id)
        role = identity.find_role("admin", ignore_missing=False)
        identity.assign_project_role_to_user(project.id, cloud.current_user_id, role.id)
        inside = cloud.connect_as_project(name)
        cleanup.callback(inside.close)
        cleanup.callback(_remove_default_group, cloud, project.id)
        made = Tenant(inside, project.id, site_name)
        cleanup.push(made._cleanup)  # one lifetime
        yield made


def _remove_default_group(cloud: Connection, project_id: str) -> None:
    """neutron makes one per project and leaves it."""
    for group in cloud.network.security_groups(project_id=project_id):
        cloud.network.delete_security_group(group.id)


@contextlib.contextmanager
def small_flavor(cloud: Connection, like: str, *, ram: int = 256, vcpus: int = 1, disk: int = 1) -> Iterator[str]:
    """A flavor for instances that only answer; returns its id.

    Args:
        cloud: as administrator.
        like: flavor whose extra specs say on which hosts.
        ram: MiB.
        vcpus: virtual CPUs.
        disk: GiB.
    """
    specs = cloud.compute.find_flavor(like, ignore_missing=False, get_extra_specs=True).extra_specs
    flavor = cloud.compute.create_flavor(name=f"test-{uuid.uuid4().hex[:8]}", ram=ram, vcpus=vcpus, disk=disk)
    try:
        cloud.compute.create_flavor_extra_specs(flavor, specs)
        yield str(flavor.id)
    finally:
        cloud.compute.delete_flavor(flavor.id)
