"""Resizing and cold migration: the instance's root and volumes go on in a container with the new flavor.

All hypervisors share the machine's podman, so nothing is copied between hosts. The old container stays, stopped, until
nova confirms; a revert goes back to its root, and what was written since is lost, as with any hypervisor's copy of the
disk. The volumes are the same ones in both.
"""

from __future__ import annotations

from typing import Any

from nova import exception
from nova.virt.lab.containers import container_name, create, image_name, set_aside_name
from nova.virt.lab.options import CONF
from nova.virt.lab.podman import PodmanError, podman, remove, remove_images, status
from nova.virt.lab.power import STOP_SECONDS, start, stop


def set_aside(instance: Any, timeout: int) -> None:
    """Stops an instance's container and keeps it under another name for the way back."""
    name = container_name(instance)
    stop(name, min(timeout or STOP_SECONDS, STOP_SECONDS))
    remove([set_aside_name(instance)], [])
    podman("rename", name, set_aside_name(instance))


def take_back(instance: Any) -> None:
    """Gives the container that was set aside its name again; the one that has it goes."""
    if status(set_aside_name(instance)) is not None:
        remove([container_name(instance)], [])
        podman("rename", set_aside_name(instance), container_name(instance))


class ResizeMixin:
    """The part of nova's driver that is about resizing."""

    _host: str

    def migrate_disk_and_power_off(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        dest: str,  # noqa: ARG002
        flavor: Any,
        network_info: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
        timeout: int = 0,
        retry_interval: int = 0,  # noqa: ARG002
    ) -> str:
        """Stops the container and sets it aside.

        Raises:
            InstanceFaultRollback: the new flavor's disk is smaller; nothing was done.
        """
        if flavor.root_gb < instance.flavor.root_gb:
            reason = f"a disk of {instance.flavor.root_gb} GiB does not become one of {flavor.root_gb} GiB"
            raise exception.InstanceFaultRollback(exception.ResizeError(reason=reason))
        set_aside(instance, timeout)
        return ""

    def finish_migration(
        self,
        context: Any,  # noqa: ARG002
        migration: Any,
        instance: Any,
        disk_info: Any,  # noqa: ARG002
        network_info: Any,
        image_meta: Any,  # noqa: ARG002
        resize_instance: Any,  # noqa: ARG002
        allocations: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
        power_on: bool = True,
    ) -> None:
        """Makes the container with the new flavor from the root of the old one.

        Raises:
            ResizeError: podman refused; the old container has its name again, stopped.
        """
        image = f"{image_name(instance)}:{migration.id}"
        label = f"LABEL strata.site={CONF.lab.site}"
        try:
            podman("commit", "--quiet", "--change", label, set_aside_name(instance), image)
            claimed = self.claimed(instance)  # type: ignore[attr-defined]  # HypervisorMixin's
            name = create(instance, self._host, image, list(network_info or []), claimed, {}, first=False)
            if power_on:
                start(name)
        except PodmanError as error:
            take_back(instance)
            remove_images(image)
            raise exception.ResizeError(reason=str(error)) from error

    def confirm_migration(self, context: Any, migration: Any, instance: Any, network_info: Any) -> None:  # noqa: ARG002
        """Removes the old container."""
        remove([set_aside_name(instance)], [])

    def finish_revert_migration(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        migration: Any,
        block_device_info: Any = None,  # noqa: ARG002
        power_on: bool = True,
    ) -> None:
        """Goes back to the old container."""
        take_back(instance)
        remove_images(f"{image_name(instance)}:{migration.id}")
        if power_on:
            start(container_name(instance))
