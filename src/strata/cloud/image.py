"""An image that instances boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_openstack as openstack

from strata.provider.base import CHECKSUM


@dataclass(frozen=True)
class ImageArgs:
    """One image, uploaded from a file or existing.

    Args:
        name: in OpenStack.
        file: relative to the program's directory, or a cached download; None for an image that the cloud has.
        properties: image properties of an uploaded one; another value of CHECKSUM is another image.
        id: of an existing one; None to find it by its name.
        disk_format: of the file.
    """

    name: str
    file: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    disk_format: str = "raw"


class Image(pulumi.ComponentResource):
    """Image in glance, created or found by its name."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: ImageArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Image", name, None, opts)
        if args.id is not None:
            self.id = pulumi.Output.from_input(args.id)
        elif args.file is None:
            existing = openstack.images.get_image_output(
                name=args.name, most_recent=True, opts=pulumi.InvokeOutputOptions(parent=self)
            )
            self.id = existing.id
        else:
            image = openstack.images.Image(
                name,
                name=args.name,
                container_format="bare",
                disk_format=args.disk_format,
                local_file_path=args.file,
                visibility="public",
                properties=dict(args.properties),
                # the path is another one for each operator, and the file need not be there once it is uploaded
                opts=pulumi.ResourceOptions(
                    parent=self,
                    ignore_changes=["localFilePath"] if CHECKSUM in args.properties else None,
                    replace_on_changes=[f"properties.{CHECKSUM}"] if CHECKSUM in args.properties else None,
                ),
            )
            self.id = image.id
        self.register_outputs({"id": self.id})
