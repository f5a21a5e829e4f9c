"""The network that routers lead to: the cloud's own, or in a lab one on the control network."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from strata.cloud.network import NetworkArgs
from strata.models.types import is_uuid


@dataclass(frozen=True)
class ExternalNetworkArgs:
    """One external network.

    Args:
        name: in OpenStack; of the cloud's own the id will do.
        subnet: what to make, as the administrator; None where the cloud has the network.
        physical_network: of a network to make, neutron's name of the interface that leads to it; None for its choice.
        vlan: on that interface; None for untagged packets.
    """

    name: str
    subnet: NetworkArgs | None = None
    physical_network: str | None = None
    vlan: int | None = None


class ExternalNetwork(pulumi.ComponentResource):
    """An external network, created or found by its name or id."""

    id: pulumi.Output[str]
    name: pulumi.Output[str]
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: ExternalNetworkArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:ExternalNetwork", name, None, opts)
        self.ready = []
        if args.subnet is None:
            invoke = pulumi.InvokeOutputOptions(parent=self)
            if is_uuid(args.name):
                existing = openstack.networking.get_network_output(network_id=args.name, opts=invoke)
            else:
                existing = openstack.networking.get_network_output(name=args.name, external=True, opts=invoke)
            self.id, self.name = existing.id, existing.name
        else:
            child = pulumi.ResourceOptions(parent=self)
            network = openstack.networking.Network(
                name, name=args.name, external=True, admin_state_up=True, segments=_segments(args), opts=child
            )
            subnet = openstack.networking.Subnet(
                name,
                name=args.name,
                network_id=network.id,
                cidr=args.subnet.cidr,
                ip_version=args.subnet.ip_version,
                gateway_ip=args.subnet.gateway,
                enable_dhcp=False,
                allocation_pools=[
                    openstack.networking.SubnetAllocationPoolArgs(start=args.subnet.pool[0], end=args.subnet.pool[1])
                ],
                opts=child,
            )
            self.id, self.name = network.id, network.name
            # a router's gateway takes an address of it
            self.ready = [subnet]
        self.register_outputs({"id": self.id})


def _segments(args: ExternalNetworkArgs) -> list[openstack.networking.NetworkSegmentArgs] | None:
    if args.physical_network is None:
        return None
    return [
        openstack.networking.NetworkSegmentArgs(
            network_type="flat" if args.vlan is None else "vlan",
            physical_network=args.physical_network,
            segmentation_id=args.vlan,
        )
    ]
