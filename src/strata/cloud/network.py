"""A network of the site's project."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

IPV6_SUFFIX = "-ipv6"
"""Of the name of the second subnet and of what belongs to it."""


def ipv4_name(name: str) -> str:
    """Name of the network to which a second subnet belongs."""
    return name.removesuffix(IPV6_SUFFIX)


@dataclass(frozen=True)
class IPv6Args:
    """The IPv6 subnet of a network.

    Args:
        cidr: addresses, "2001:db8::/64".
        addressing: "slaac", "dhcpv6-stateless" or "dhcpv6-stateful": who forms the addresses, and who announces them.
        gateway: router of the subnet.
        dns_servers: for instances.
    """

    cidr: str
    addressing: str
    gateway: str
    dns_servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkArgs:
    """One network with a subnet, and one more where it has IPv6 too.

    Args:
        name: of network and subnet.
        cidr: addresses, "10.77.0.0/24".
        ip_version: 4 or 6.
        gateway: router of the subnet.
        pool: first and last address that instances get.
        dns_servers: for instances; empty for the hypervisor's.
        existing: whether the cloud has it.
        ipv6: the second subnet; None for none.
    """

    name: str
    cidr: str
    ip_version: int
    gateway: str
    pool: tuple[str, str]
    dns_servers: tuple[str, ...] = ()
    existing: bool = False
    ipv6: IPv6Args | None = None


class Network(pulumi.ComponentResource):
    """Network and subnet, created, or found by name and addresses."""

    id: pulumi.Output[str]
    subnet_id: pulumi.Output[str]
    ipv6_subnet_id: pulumi.Output[str] | None = None

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Network", name, None, opts)
        self._name = args.name
        if args.existing:
            invoke = pulumi.InvokeOutputOptions(parent=self)
            self.id = openstack.networking.get_network_output(name=args.name, opts=invoke).id
            self.subnet_id = openstack.networking.get_subnet_output(
                network_id=self.id, cidr=args.cidr, ip_version=args.ip_version, opts=invoke
            ).id
            if args.ipv6 is not None:
                self.ipv6_subnet_id = openstack.networking.get_subnet_output(
                    network_id=self.id, cidr=args.ipv6.cidr, ip_version=6, opts=invoke
                ).id
            self.register_outputs({"id": self.id, "subnetId": self.subnet_id})
            return
        child = pulumi.ResourceOptions(parent=self)
        network = openstack.networking.Network(name, name=args.name, admin_state_up=True, opts=child)
        subnet = openstack.networking.Subnet(
            name,
            name=args.name,
            network_id=network.id,
            cidr=args.cidr,
            ip_version=args.ip_version,
            gateway_ip=args.gateway,
            allocation_pools=[openstack.networking.SubnetAllocationPoolArgs(start=args.pool[0], end=args.pool[1])],
            dns_nameservers=list(args.dns_servers),
            opts=child,
        )
        self.id = network.id
        self.subnet_id = subnet.id
        if args.ipv6 is not None:
            self.ipv6_subnet_id = openstack.networking.Subnet(
                f"{name}{IPV6_SUFFIX}",
                name=f"{args.name}{IPV6_SUFFIX}",
                network_id=network.id,
                cidr=args.ipv6.cidr,
                ip_version=6,
                # without both, neutron announces nothing and no instance learns its address
                ipv6_address_mode=args.ipv6.addressing,
                ipv6_ra_mode=args.ipv6.addressing,
                gateway_ip=args.ipv6.gateway,
                dns_nameservers=list(args.ipv6.dns_servers),
                opts=child,
            ).id
        self.register_outputs({"id": self.id, "subnetId": self.subnet_id})

    @property
    def routed_subnets(self) -> dict[str, pulumi.Input[str]]:
        """The subnets in which a router has an interface, by the interfaces' names."""
        subnets: dict[str, pulumi.Input[str]] = {self._name: self.subnet_id}
        return subnets if self.ipv6_subnet_id is None else subnets | {f"{self._name}{IPV6_SUFFIX}": self.ipv6_subnet_id}
