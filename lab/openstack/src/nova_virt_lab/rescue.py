"""Rescue: a fresh system with the instance's own root mounted, for who can no longer log in to theirs."""

from __future__ import annotations

import json
from typing import Any

from nova import exception
from nova.image import glance
from nova.virt.lab.containers import IMAGE_PROPERTY, container_name, create, root_filesystem, set_aside_name
from nova.virt.lab.options import CONF
from nova.virt.lab.podman import PodmanError, podman, remove
from nova.virt.lab.power import start
from nova.virt.lab.resize import set_aside, take_back

MOUNT_POINT = "/mnt"
"""Where the rescue system has the instance's root, writable."""


class RescueMixin:
    """The part of nova's driver that is about rescue."""

    _host: str

    def rescue(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        image_meta: Any,
        rescue_password: Any,  # noqa: ARG002
        block_device_info: Any,  # noqa: ARG002
        share_info: Any,  # noqa: ARG002
    ) -> None:
        """Starts a container from the rescue image in the instance's place.

        Raises:
            InstanceNotRescuable: podman refused; the instance's own container is back, stopped.
        """
        set_aside(instance, 0)
        try:
            options = ("--volume", f"{_root_volume(instance)}:{MOUNT_POINT}:exec,dev,suid")
            image = _rescue_image(context, instance, image_meta)
            claimed = self.claimed(instance)  # type: ignore[attr-defined]  # HypervisorMixin's
            start(create(instance, self._host, image, list(network_info or []), claimed, {}, mounts=options))
        except (PodmanError, ValueError, exception.NovaException) as error:
            take_back(instance)
            remove([], [_volume_name(instance)])
            raise exception.InstanceNotRescuable(instance_id=instance.uuid, reason=str(error)) from error

    def unrescue(self, context: Any, instance: Any) -> None:  # noqa: ARG002
        """Removes the rescue system and starts the instance again."""
        take_back(instance)
        remove([], [_volume_name(instance)])
        start(container_name(instance))


def _volume_name(instance: Any) -> str:
    return f"{container_name(instance)}-rescue"


def _root_volume(instance: Any) -> str:
    """A volume that mounts the stopped container's root as podman would."""
    output = podman("container", "inspect", "--format", "{{json .GraphDriver.Data}}", set_aside_name(instance))
    layers: dict[str, str] = json.loads(output)
    mount = f"lowerdir={layers['LowerDir']},upperdir={layers['UpperDir']},workdir={layers['WorkDir']}"
    name = _volume_name(instance)
    remove([], [name])
    podman(
        *("volume", "create", "--label", f"strata.site={CONF.lab.site}"),
        *("--opt", "type=overlay", "--opt", "device=overlay", "--opt", f"o={mount}", name),
    )
    return name


def _rescue_image(context: Any, instance: Any, image_meta: Any) -> str:
    """podman image to rescue with: that of the image that the user named, else the instance's."""
    if image_meta.obj_attr_is_set("id") and image_meta.id != instance.image_ref:
        properties = glance.API().get(context, image_meta.id)["properties"]
        if IMAGE_PROPERTY not in properties:
            raise ValueError(f"image {image_meta.name}: property {IMAGE_PROPERTY} is not set")
        return str(properties[IMAGE_PROPERTY])
    return str(root_filesystem(instance, image_meta))
