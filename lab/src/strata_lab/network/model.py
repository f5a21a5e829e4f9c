"""neutron's objects as the agent reads them; the mechanism driver writes the same names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Subnet:
    """A subnet.

    Args:
        id: neutron's.
        network_id: of its network.
        cidr: addresses.
        gateway_ip: the router's address, None for none.
    """

    id: str
    network_id: str
    cidr: str
    gateway_ip: str | None = None

    @property
    def version(self) -> int:
        """4 or 6."""
        return ip_network(self.cidr).version


@dataclass(frozen=True)
class AddressPair:
    """Another address that a port may send from.

    Args:
        mac_address: of the sender.
        ip_address: address or network.
    """

    mac_address: str
    ip_address: str


@dataclass(frozen=True)
class Port:
    """A port.

    Args:
        id: neutron's.
        network_id: of its network.
        mac_address: in small letters.
        fixed_ips: its addresses.
        allowed_address_pairs: what else it may send from.
        security_groups: ids of its groups.
        port_security_enabled: whether groups and addresses are enforced.
        admin_state_up: whether anything passes at all.
        device_id: the instance.
        device_owner: `compute:nova`, `network:router_interface`, …
        project_id: whose it is.
    """

    id: str
    network_id: str
    mac_address: str
    fixed_ips: tuple[str, ...]
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    security_groups: tuple[str, ...] = ()
    port_security_enabled: bool = True
    admin_state_up: bool = True
    device_id: str = ""
    device_owner: str = ""
    project_id: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """What remote groups mean by this port."""
        return (*self.fixed_ips, *(pair.ip_address for pair in self.allowed_address_pairs))


@dataclass(frozen=True)
class Rule:
    """A rule of a security group; None is everywhere "any".

    Args:
        direction: ingress or egress.
        ethertype: IPv4 or IPv6.
        protocol: name or number.
        port_range_min: first port, or ICMP type.
        port_range_max: last port, or ICMP code.
        remote_ip_prefix: the other side's addresses.
        remote_group_id: the other side's group.
        remote_address_group_id: the other side's address group.
    """

    direction: str
    ethertype: str
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None


@dataclass(frozen=True)
class Router:
    """A router.

    Args:
        id: neutron's.
        subnets: ids of those that it joins.
        external: whether it has a gateway to an external network.
    """

    id: str
    subnets: tuple[str, ...]
    external: bool


@dataclass(frozen=True)
class FloatingIp:
    """An associated floating IP.

    Args:
        address: the outer address.
        fixed_address: the port's.
        network_id: the external network.
    """

    address: str
    fixed_address: str
    network_id: str


@dataclass(frozen=True)
class State:
    """Everything of one site.

    Args:
        subnets: of networks that instances are in.
        external_subnets: of external networks.
        ports: of instances and routers.
        groups: rules by the id of their group.
        address_groups: addresses by the id of their group.
        routers: with interfaces.
        floating_ips: the associated ones.
    """

    subnets: tuple[Subnet, ...] = ()
    external_subnets: tuple[Subnet, ...] = ()
    ports: tuple[Port, ...] = ()
    groups: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    address_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    routers: tuple[Router, ...] = ()
    floating_ips: tuple[FloatingIp, ...] = ()

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> State:
        """Reads what the mechanism driver wrote; unknown keys are left out.

        Raises:
            KeyError, TypeError, ValueError: it is not what it should be.
        """
        ports = [
            {
                **port,
                "fixed_ips": tuple(port["fixed_ips"]),
                "security_groups": tuple(port["security_groups"]),
                "allowed_address_pairs": tuple(_all(AddressPair, port["allowed_address_pairs"])),
            }
            for port in document["ports"]
        ]
        return cls(
            subnets=tuple(_all(Subnet, document["subnets"])),
            external_subnets=tuple(_all(Subnet, document["external_subnets"])),
            ports=tuple(_all(Port, ports)),
            groups={name: tuple(_all(Rule, rules)) for name, rules in document["groups"].items()},
            address_groups={name: tuple(addresses) for name, addresses in document["address_groups"].items()},
            routers=tuple(_all(Router, ({**r, "subnets": tuple(r["subnets"])} for r in document["routers"]))),
            floating_ips=tuple(_all(FloatingIp, document["floating_ips"])),
        )


def _all(kind: type[T], rows: Iterable[Mapping[str, Any]]) -> list[T]:
    names = {entry.name for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]  # called with dataclasses only
    return [kind(**{key: value for key, value in row.items() if key in names}) for row in rows]
