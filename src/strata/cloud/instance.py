"""An instance with its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class FloatingIpArgs:
    """An address of an external network.

    Args:
        network: name of the external network.
        site: whose it is; part of the description.
        routes: what must be there before the address can be associated.
    """

    network: pulumi.Input[str]
    site: str
    routes: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True)
class BootVolumeArgs:
    """A root disk on a volume.

    Args:
        size_gib: size in GiB.
        volume_type: None for the cloud's default.
    """

    size_gib: int
    volume_type: str | None = None


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
        ipv6_subnet_id: where its IPv6 address comes from; None for none.
        security_group_ids: of its port.
        further_networks: addresses beside its own that it may send from.
        floating_ip: how it is reachable from outside; None for not.
        metadata: server metadata.
        server_group_id: whose policy determines the hypervisors that it may run on.
        availability_zone: where nova starts it; None for the cloud's choice.
        roles: Ansible groups.
        boot_volume: what it boots from; None for a disk of the hypervisor.
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
    ipv6_subnet_id: pulumi.Input[str] | None = None
    server_group_id: pulumi.Input[str] | None = None
    availability_zone: str | None = None
    floating_ip: FloatingIpArgs | None = None
    boot_volume: BootVolumeArgs | None = None


class Instance(pulumi.ComponentResource):
    """Port, its floating IP, and server; the port keeps its addresses when the server is replaced."""

    outputs: dict[str, pulumi.Input[object]]
    id: pulumi.Output[str]

    def __init__(self, name: str, args: InstanceArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Instance", name, None, opts)
        port = openstack.networking.Port(
            name,
            name=args.name,
            network_id=args.network_id,
            admin_state_up=True,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(subnet_id=subnet)
                for subnet in (args.subnet_id, args.ipv6_subnet_id)
                if subnet is not None
            ],
            security_group_ids=list(args.security_group_ids),
            # port security drops what comes from any other address
            allowed_address_pairs=[
                openstack.networking.PortAllowedAddressPairArgs(ip_address=network) for network in args.further_networks
            ],
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        scheduler_hints = None
        if args.server_group_id is not None:
            scheduler_hints = [openstack.compute.InstanceSchedulerHintArgs(group=args.server_group_id)]
        block_devices = None
        if args.boot_volume is not None:
            block_devices = [
                openstack.compute.InstanceBlockDeviceArgs(
                    uuid=args.image_id,
                    source_type="image",
                    destination_type="volume",
                    boot_index=0,
                    volume_size=args.boot_volume.size_gib,
                    volume_type=args.boot_volume.volume_type,
                    delete_on_termination=True,
                )
            ]
        server = openstack.compute.Instance(
            name,
            name=args.name,
            flavor_id=args.flavor_id,
            # of an instance that boots from a volume, nova reports none
            image_id=args.image_id if block_devices is None else None,
            block_devices=block_devices,
            key_pair=args.key_pair,
            networks=[openstack.compute.InstanceNetworkArgs(port=port.id)],
            metadata=dict(args.metadata),
            availability_zone=args.availability_zone,
            scheduler_hints=scheduler_hints,
            # the provider's default, but Pulumi keeps a default that a refresh found changed: it would stay shut off
            power_state="active",
            # its accelerators and its port are free only when the old one is gone;
            # another key is for new instances, and must not replace existing ones
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, ignore_changes=["keyPair"]),
        )
        self.id = server.id
        self.outputs = {
            "id": server.id,
            "name": args.name,
            "address": port.all_fixed_ips.apply(_first_ipv4),
            "flavor": args.flavor,
            "roles": list(args.roles),
        }
        if args.floating_ip is not None:
            outside = openstack.networking.FloatingIp(
                name,
                pool=args.floating_ip.network,
                port_id=port.id,
                description=f"{args.floating_ip.site}: {args.name}",
                opts=pulumi.ResourceOptions(parent=self, depends_on=args.floating_ip.routes),
            )
            self.outputs["floating_ip"] = outside.address
        self.register_outputs(self.outputs)


def _first_ipv4(addresses: Sequence[str]) -> str:
    """The address that Strata connects to: of a port with both kinds, in whichever order neutron lists them."""
    return next((address for address in addresses if ip_address(address).version == 4), addresses[0])
