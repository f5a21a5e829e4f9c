"""A network of the site's project."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class NetworkArgs:
    """One network with one subnet.

    Args:
        name: of network and subnet.
        cidr: addresses, "10.77.0.0/24".
        ip_version: 4 or 6.
        gateway: router of the subnet.
        pool: first and last address that instances get.
        dns_servers: told to instances; empty for the hypervisor's.
        existing: whether the cloud has it.
    """

    name: str
    cidr: str
    ip_version: int
    gateway: str
    pool: tuple[str, str]
    dns_servers: tuple[str, ...] = ()
    existing: bool = False


class Network(pulumi.ComponentResource):
    """Network and subnet, created, or found by name and addresses."""

    id: pulumi.Output[str]
    subnet_id: pulumi.Output[str]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Network", name, None, opts)
        if args.existing:
            invoke = pulumi.InvokeOutputOptions(parent=self)
            self.id = openstack.networking.get_network_output(name=args.name, opts=invoke).id
            self.subnet_id = openstack.networking.get_subnet_output(
                network_id=self.id, cidr=args.cidr, ip_version=args.ip_version, opts=invoke
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
        self.register_outputs({"id": self.id, "subnetId": self.subnet_id})
