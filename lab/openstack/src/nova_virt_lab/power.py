"""Starting and stopping instances."""

from __future__ import annotations

from typing import Any

from nova.virt.lab.containers import container_name
from nova.virt.lab.podman import podman, status

STOP_SECONDS = 10


def start(name: str) -> None:
    """Starts an instance's container; every start goes through here."""
    podman("start", name)


def stop(name: str, timeout: int = STOP_SECONDS) -> None:
    """Stops a container as systemd's shutdown does, by force after the timeout in seconds."""
    podman("stop", "--time", str(timeout), name)


class PowerMixin:
    """The part of nova's driver that is about power states."""

    def power_on(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
        accel_info: Any = None,  # noqa: ARG002
        share_info: Any = None,  # noqa: ARG002
    ) -> None:
        """Starts the container."""
        start(container_name(instance))

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:  # noqa: ARG002
        """Stops the container."""
        stop(container_name(instance), min(timeout or STOP_SECONDS, STOP_SECONDS))

    def reboot(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        reboot_type: str,
        block_device_info: Any = None,  # noqa: ARG002
        bad_volumes_callback: Any = None,  # noqa: ARG002
        accel_info: Any = None,  # noqa: ARG002
        share_info: Any = None,  # noqa: ARG002
    ) -> None:
        """Stops and starts the container."""
        name = container_name(instance)
        if status(name) == "paused":
            # podman stops no frozen container; nova reboots paused instances by force only
            podman("unpause", name)
        stop(name, 0 if reboot_type == "HARD" else STOP_SECONDS)
        start(name)

    def pause(self, instance: Any) -> None:
        """Freezes its processes."""
        podman("pause", container_name(instance))

    def unpause(self, instance: Any) -> None:
        """Lets them go on."""
        podman("unpause", container_name(instance))

    def resume_state_on_host_boot(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        share_info: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
    ) -> None:
        """Starts an instance that was running when the site went down."""
        name = container_name(instance)
        if status(name) not in ("running", None):
            start(name)

    def poll_rebooting_instances(self, timeout: int, instances: Any) -> None:
        """A reboot is done when the call returns."""
