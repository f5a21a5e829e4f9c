"""An image that instances boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class ImageArgs:
    """One image, uploaded from a raw file or existing.

    Args:
        name: in OpenStack.
        file: relative to the program's directory, so that the state does not depend on the checkout;
            None for an image that the cloud has.
        properties: image properties of an uploaded one.
        id: of an existing one; None to find it by its name.
    """

    name: str
    file: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None


class Image(pulumi.ComponentResource):
    """Image in glance, created or found by its name."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: ImageArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Image", name, None, opts)
        if args.id is not None:
            self.id = pulumi.Output.from_input(args.id)
        elif args.file is None:
            found = openstack.images.get_image_output(
                name=args.name, most_recent=True, opts=pulumi.InvokeOutputOptions(parent=self)
            )
            self.id = found.id
        else:
            image = openstack.images.Image(
                name,
                name=args.name,
                container_format="bare",
                disk_format="raw",
                local_file_path=args.file,
                visibility="public",
                properties=dict(args.properties),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.id = image.id
        self.register_outputs({"id": self.id})
