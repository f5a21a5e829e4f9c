"""The address that load balancers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from strata.cloud.instance import FloatingIpArgs
from strata.cloud.network import Network


@dataclass(frozen=True)
class VirtualAddressArgs:
    """An address that no instance has by itself.

    Args:
        site: whose it is; part of names and descriptions.
        address: IPv4.
        network: name of the network that it belongs to.
        floating_ip: whether it is reachable from outside.
    """

    site: str
    address: str
    network: str
    floating_ip: bool


class VirtualAddress(pulumi.ComponentResource):
    """A port without an instance, so that neutron gives its address to no other, and its floating IP.

    Packets reach the instance that answers for the address; ports of such instances allow it.

    Args:
        name: of the resources in the stack.
        args: the address.
        network: the one that `args` names.
        security_group_ids: of the port.
        floating_ip: where a floating IP comes from; None on a cloud without an external network.
        opts: of the component.
    """

    floating_ip: pulumi.Output[str] | None = None

    def __init__(
        self,
        name: str,
        args: VirtualAddressArgs,
        network: Network,
        security_group_ids: Sequence[pulumi.Input[str]],
        floating_ip: FloatingIpArgs | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("strata:cloud:VirtualAddress", name, None, opts)
        port = openstack.networking.Port(
            name,
            name=f"{args.site}-{name.replace('_', '-')}",
            network_id=network.id,
            admin_state_up=True,
            fixed_ips=[openstack.networking.PortFixedIpArgs(subnet_id=network.subnet_id, ip_address=args.address)],
            security_group_ids=list(security_group_ids),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        if args.floating_ip and floating_ip is not None:
            self.floating_ip = openstack.networking.FloatingIp(
                name,
                pool=floating_ip.network,
                port_id=port.id,
                description=f"{args.site}: {name}",
                opts=pulumi.ResourceOptions(parent=self, depends_on=floating_ip.routes),
            ).address
        self.register_outputs({"floating_ip": self.floating_ip})
