"""An instance with its port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class InstanceArgs:
    """One instance.

    Args:
        name: in OpenStack, also its host name.
        flavor: name of the flavor.
        flavor_id: id of it.
        image_id: what it boots.
        key_pair: name of the key that root accepts.
        network_id: where its port is.
        subnet_id: where its address comes from.
        security_group_ids: of its port.
        further_networks: addresses beside its own that it may send from.
        metadata: server metadata.
        roles: Ansible groups.
    """

    name: str
    flavor: str
    flavor_id: pulumi.Input[str]
    image_id: pulumi.Input[str]
    key_pair: pulumi.Input[str]
    network_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    security_group_ids: tuple[pulumi.Input[str], ...]
    metadata: Mapping[str, str]
    roles: tuple[str, ...]
    further_networks: tuple[str, ...] = ()


class Instance(pulumi.ComponentResource):
    """Port and server; the port keeps its address when the server is replaced."""

    outputs: dict[str, pulumi.Input[object]]

    def __init__(self, name: str, args: InstanceArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Instance", name, None, opts)
        port = openstack.networking.Port(
            name,
            name=args.name,
            network_id=args.network_id,
            admin_state_up=True,
            fixed_ips=[openstack.networking.PortFixedIpArgs(subnet_id=args.subnet_id)],
            security_group_ids=list(args.security_group_ids),
            # port security drops what comes from any other address
            allowed_address_pairs=[
                openstack.networking.PortAllowedAddressPairArgs(ip_address=network) for network in args.further_networks
            ],
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        server = openstack.compute.Instance(
            name,
            name=args.name,
            flavor_id=args.flavor_id,
            image_id=args.image_id,
            key_pair=args.key_pair,
            networks=[openstack.compute.InstanceNetworkArgs(port=port.id)],
            metadata=dict(args.metadata),
            # its accelerators and its port are free only when the old one is gone;
            # another key is for new instances, and must not replace those that stand
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, ignore_changes=["keyPair"]),
        )
        self.outputs = {
            "id": server.id,
            "name": args.name,
            "address": port.all_fixed_ips[0],
            "flavor": args.flavor,
            "roles": list(args.roles),
        }
        self.register_outputs(self.outputs)
