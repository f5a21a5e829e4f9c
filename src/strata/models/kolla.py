"""A cloud that Kolla-Ansible deploys: its hosts, addresses and storage."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from strata.models.address_pool import AddressPool
from strata.models.base import Model
from strata.models.compute import Hypervisor
from strata.models.types import DnsLabel, DomainName, IPAddress, IPv4Net, LoginName

Interface = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$")]
RegistryAddress = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?$")
]
TEST_REGISTRY = "quay.io"
MIXED = "controllers and hypervisors with the same name are one host; they need the same address"


class Controller(Model):
    """A host of the control plane: APIs, database, message queue, network nodes and load balancer."""

    name: Annotated[DnsLabel, Field(description="Host name.")]
    address: Annotated[IPAddress, Field(description="Address on cloud.kolla.network.")]


class VirtualAddress(Model):
    """An address that keepalived moves between the controllers."""

    address: Annotated[IPAddress, Field(description="The address.")]
    name: Annotated[DomainName, Field(description="DNS name, as in the TLS certificate.")]


class Interfaces(Model):
    """Network interfaces, which have the same names on all hosts."""

    api: Annotated[Interface, Field(description="Interface with the address on cloud.kolla.network.")]
    external: Annotated[Interface, Field(description="Interface without addresses, for neutron's provider networks.")]
    tunnel: Annotated[Interface | None, Field(description="Interface for tenants' networks. Default: api.")] = None
    public: Annotated[
        Interface | None, Field(description="Interface for the external virtual address. Default: api.")
    ] = None

    @model_validator(mode="after")
    def _external_is_alone(self) -> Self:
        for key in ("api", "tunnel", "public"):
            if getattr(self, key) == self.external:
                raise PydanticCustomError(
                    "interface_shared",
                    "is the interface of {other} too, {interface}, which loses its addresses to Open vSwitch's bridge",
                    {
                        "key": "external",
                        "other": key,
                        "interface": self.external,
                        "fix": "an interface without addresses; a VLAN or one end of a veth pair will do",
                    },
                )
        return self


def _gateway(data: dict[str, Any]) -> IPv4Address:
    address: IPv4Address = data["cidr"][1]
    return address


class ExternalNetwork(Model):
    """The network behind interfaces.external, from which routers and hosts with floating IPs get addresses."""

    cidr: Annotated[IPv4Net, Field(description="Its addresses.")]
    gateway: Annotated[IPAddress, Field(description="Router of your network. Default: its first address.")] = Field(
        default_factory=_gateway
    )
    addresses: Annotated[
        AddressPool, Field(description="Addresses for routers and floating IPs, which nothing else uses.")
    ]
    vlan: Annotated[
        StrictInt | None,
        Field(ge=1, le=4094, description="VLAN on interfaces.external. Default: untagged."),
    ] = None

    @model_validator(mode="after")
    def _inside(self) -> Self:
        places = (("gateway", self.gateway), ("addresses", self.addresses.start), ("addresses", self.addresses.end))
        for key, address in places:
            if address not in self.cidr:
                raise PydanticCustomError(
                    "address_outside",
                    "is not in {cidr}",
                    {"key": key, "cidr": str(self.cidr), "fix": f"an address of {self.cidr}"},
                )
        if self.addresses.size < 1:
            raise PydanticCustomError(
                "pool_reversed", "ends before it starts", {"key": "addresses", "fix": "exchange start and end"}
            )
        if int(self.addresses.start) <= int(self.gateway) <= int(self.addresses.end):
            raise PydanticCustomError(
                "pool_gateway",
                "holds the gateway {gateway}",
                {"key": "addresses", "gateway": str(self.gateway), "fix": "leave the gateway out of it"},
            )
        return self


class Ceph(Model):
    """An existing Ceph cluster for images, volumes and instances' disks."""

    cluster_id: Annotated[UUID, Field(description="fsid of the cluster.")]
    monitors: Annotated[tuple[IPAddress, ...], Field(min_length=1, description="Addresses of the monitors.")]


class Kolla(Model):
    """How Kolla-Ansible deploys the cloud."""

    registry: Annotated[
        RegistryAddress,
        Field(
            description="Registry with Kolla's images; Kolla-Ansible refuses quay.io, whose images are only for tests."
        ),
    ]
    distribution: Annotated[
        Literal["debian", "ubuntu", "rocky"], Field(description="Distribution of Kolla's images.")
    ] = "debian"
    engine: Annotated[Literal["podman", "docker"], Field(description="Container engine of the hosts.")] = "podman"
    login_user: Annotated[
        LoginName,
        Field(description="User that Kolla-Ansible logs in as, with the operator's SSH configuration; needs sudo."),
    ] = "root"
    network: Annotated[IPv4Net, Field(description="Network of the hosts' API interface.")]
    controllers: Annotated[tuple[Controller, ...], Field(min_length=1, description="Control plane: 1, 3 or 5 hosts.")]
    internal: Annotated[VirtualAddress, Field(description="Address of the internal APIs, in cloud.kolla.network.")]
    external: Annotated[VirtualAddress, Field(description="Address of the public APIs.")]
    interfaces: Annotated[Interfaces, Field(description="Network interfaces of the hosts.")]
    external_network: Annotated[
        ExternalNetwork | None,
        Field(
            description="External network, created with the name cloud.external_network. Default: it exists, or there "
            "is none."
        ),
    ] = None
    ceph: Annotated[
        Ceph | None,
        Field(
            description="Existing Ceph cluster; needs the secrets kolla_ceph_glance_key and kolla_ceph_cinder_key. "
            "Default: images and disks are on the hosts."
        ),
    ] = None
    database_backup: Annotated[
        StrictBool, Field(description="Whether MariaDB is prepared for `kolla-ansible mariadb-backup`.")
    ] = True

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        hosts = {controller.address for controller in self.controllers}
        placed = [("internal", self.internal.address), *(("controllers", c.address) for c in self.controllers)]
        for key, address in placed:
            if address not in self.network:
                raise PydanticCustomError(
                    "kolla_address_outside",
                    "has the address {address}, which is not in network {network}",
                    {"key": key, "address": str(address), "network": str(self.network), "fix": f"in {self.network}"},
                )
        for key, virtual in (("internal", self.internal), ("external", self.external)):
            if virtual.address in hosts:
                raise PydanticCustomError(
                    "virtual_address_used",
                    "has the address of a controller, {address}",
                    {"key": key, "address": str(virtual.address), "fix": "an address that no host has"},
                )
        for key, virtual in (("internal", self.internal), ("external", self.external)):
            if virtual.address in (self.network.network_address, self.network.broadcast_address):
                raise PydanticCustomError(
                    "virtual_address_reserved",
                    "has the network or broadcast address of {network}, {address}",
                    {
                        "key": key,
                        "address": str(virtual.address),
                        "network": str(self.network),
                        "fix": "an address that a host can have, and none has",
                    },
                )
        pool = self.external_network.addresses if self.external_network is not None else None
        if pool is not None and int(pool.start) <= int(self.external.address) <= int(pool.end):
            raise PydanticCustomError(
                "virtual_address_in_pool",
                "has the address {address}, which a floating IP could get",
                {
                    "key": "external",
                    "address": str(self.external.address),
                    "fix": "an address outside of external_network.addresses",
                },
            )
        if self.internal.name == self.external.name:
            raise PydanticCustomError(
                "virtual_name_shared",
                "has the name of internal, {name}, and its certificate would be for one address",
                {"key": "external", "name": self.external.name, "fix": "a name of its own"},
            )
        if self.registry.partition(":")[0] == TEST_REGISTRY:
            raise PydanticCustomError(
                "test_registry",
                "has images for tests only, with which Kolla-Ansible's prechecks fail",
                {"key": "registry", "fix": "a registry of the site that mirrors them, as in registry.example.org:5000"},
            )
        if self.internal.address == self.external.address:
            raise PydanticCustomError(
                "virtual_address_shared",
                "has the address of internal, {address}",
                {"key": "external", "address": str(self.external.address), "fix": "an address of its own"},
            )
        return self


def check_hypervisors(kolla: Kolla, hypervisors: tuple[Hypervisor, ...]) -> None:
    """Checks the hypervisors' addresses against the control plane.

    Raises:
        PydanticCustomError: an address is missing, outside of the network, or another host's.
    """
    owners: dict[object, str] = {c.address: c.name for c in kolla.controllers}
    owners |= {kolla.internal.address: "cloud.kolla.internal", kolla.external.address: "cloud.kolla.external"}
    controllers = {c.name: c.address for c in kolla.controllers}
    for host in hypervisors:
        if host.address is None:
            free = next((a for a in kolla.network.hosts() if a not in owners), IPv4Address("10.0.0.10"))
            problem, fix = f"{host.name} has no address", f"for instance address: {free}"
        elif host.address not in kolla.network:
            problem = f"{host.name} has the address {host.address}, which is not in kolla.network {kolla.network}"
            fix = f"an address of {kolla.network}"
        elif owners.get(host.address, host.name) != host.name:
            problem, fix = f"{host.name} has the address of {owners[host.address]}", "an address of its own"
        elif controllers.get(host.name, host.address) != host.address:
            problem, fix = f"{host.name} is a controller with the address {controllers[host.name]}", MIXED
        else:
            owners[host.address] = host.name
            continue
        details = {"key": "hypervisors", "problem": problem, "fix": fix}
        raise PydanticCustomError("hypervisor_address", "{problem}", details)
