"""A volume for data, attached to its instance."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class VolumeArgs:
    """One volume.

    Args:
        name: in cinder, where it need not be unique.
        description: whose it is, and what for.
        size_gib: size in GiB.
        volume_type: type that it is created with; None for the cloud's default.
    """

    name: str
    description: str
    size_gib: int
    volume_type: str | None = None


class Volume(pulumi.ComponentResource):
    """Volume and attachment; the volume is not the instance's, so that it stays when the instance is replaced.

    Args:
        name: of the resources in the stack.
        args: the volume.
        server_id: instance that it is attached to.
        opts: of the component.
    """

    id: pulumi.Output[str]

    def __init__(self, name: str, args: VolumeArgs, server_id: pulumi.Input[str], opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Volume", name, None, opts)
        volume = openstack.blockstorage.Volume(
            name,
            name=args.name,
            description=args.description,
            size=args.size_gib,
            volume_type=args.volume_type,
            enable_online_resize=True,
            # another type would move the data to another backend, which the operator does with cinder's own command
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["volumeType"]),
        )
        openstack.compute.VolumeAttach(
            name,
            instance_id=server_id,
            volume_id=volume.id,
            # a volume is attached to one server at a time
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.id = volume.id
        self.register_outputs({"id": self.id})
