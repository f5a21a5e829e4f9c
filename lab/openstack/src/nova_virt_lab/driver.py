"""nova virt driver whose instances are podman containers that boot systemd.

Option: `compute_driver = lab.driver.PodmanDriver`. One nova-compute process is one hypervisor, with its own host name
and state path. All truth is in podman's labels, so that containers outlive nova-compute and its controller.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from nova import exception
from nova.compute import power_state, task_states
from nova.virt import driver, hardware
from nova.virt.lab import networks
from nova.virt.lab.console import ConsoleMixin
from nova.virt.lab.containers import container_name, create, remove_all, root_filesystem
from nova.virt.lab.hypervisor import HypervisorMixin
from nova.virt.lab.podman import PodmanError, containers, remove, status
from nova.virt.lab.power import PowerMixin, start
from nova.virt.lab.rescue import RescueMixin
from nova.virt.lab.resize import ResizeMixin
from oslo_concurrency import lockutils
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

POWER_STATES = {
    "running": power_state.RUNNING,
    "stopping": power_state.RUNNING,
    "paused": power_state.PAUSED,
    "created": power_state.SHUTDOWN,
    "configured": power_state.SHUTDOWN,
    "exited": power_state.SHUTDOWN,
    "stopped": power_state.SHUTDOWN,
}


class PodmanDriver(
    HypervisorMixin,  # type: ignore[misc]  # it is known as part of nova only, which ships no types
    PowerMixin,  # type: ignore[misc]
    ResizeMixin,  # type: ignore[misc]
    RescueMixin,  # type: ignore[misc]
    ConsoleMixin,  # type: ignore[misc]
    driver.ComputeDriver,  # type: ignore[misc]
):
    """Instances as containers of the host's podman service."""

    capabilities: ClassVar[dict[str, bool]] = dict(
        driver.ComputeDriver.capabilities,
        has_imagecache=False,
        supports_attach_interface=False,
        supports_device_tagging=True,
        supports_image_type_raw=True,
        supports_image_type_qcow2=True,
    )

    def list_instances(self) -> list[str]:
        """nova's names of the instances."""
        return [c["Labels"]["strata.instance_name"] for c in containers(self._host)]

    def list_instance_uuids(self) -> list[str]:
        """Their ids."""
        return [c["Labels"]["strata.instance"] for c in containers(self._host)]

    def get_num_instances(self) -> int:
        """How many there are, stopped ones included."""
        return len(containers(self._host))

    def instance_exists(self, instance: Any) -> bool:
        """Whether its container is there."""
        return status(container_name(instance)) is not None

    def instance_on_disk(self, instance: Any) -> bool:
        """Whether its container is there."""
        return self.instance_exists(instance)

    def get_info(self, instance: Any, use_cache: bool = True) -> Any:  # noqa: ARG002
        """Power state of an instance."""
        state = status(container_name(instance))
        if state is None:
            raise exception.InstanceNotFound(instance_id=instance.uuid)
        return hardware.InstanceInfo(
            state=POWER_STATES.get(state, power_state.NOSTATE), internal_id=container_name(instance)
        )

    def spawn(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,  # noqa: ARG002
        allocations: Any,  # noqa: ARG002
        network_info: Any = None,
        block_device_info: Any = None,  # noqa: ARG002
        power_on: bool = True,
        accel_info: Any = None,  # noqa: ARG002
    ) -> None:
        """Makes and starts the container.

        Raises:
            InstanceDeployFailure: podman refused, or the image names no root filesystem.
        """
        started = time.monotonic()
        claimed = self.claimed(instance)
        try:
            remove_all(instance)
            image = root_filesystem(instance, image_meta)
            ports = list(network_info or [])
            name = create(instance, self._host, image, ports, claimed, dict(injected_files or []))
            if power_on:
                start(name)
        except (PodmanError, ValueError) as error:
            LOG.error("spawn failed: %s", error, instance=instance)
            remove_all(instance)
            raise exception.InstanceDeployFailure(reason=str(error)) from error
        LOG.info(
            "started in %.2f s with devices %s",
            time.monotonic() - started,
            [d.address for d in claimed],
            instance=instance,
        )

    def destroy(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
        destroy_disks: bool = True,  # noqa: ARG002
        destroy_secrets: bool = True,  # noqa: ARG002
    ) -> None:
        """Removes the container, its volumes, and networks that nothing uses any more."""
        if instance.task_state == task_states.RESIZE_REVERTING:
            # the resized container goes, what was set aside is what the user wants back
            remove([container_name(instance)], [])
            return
        remove_all(instance)
        with lockutils.lock(networks.LOCK, external=True):
            networks.remove_unused()

    def cleanup(
        self,
        context: Any,  # noqa: ARG002
        instance: Any,
        network_info: Any,  # noqa: ARG002
        block_device_info: Any = None,  # noqa: ARG002
        destroy_disks: bool = True,  # noqa: ARG002
        migrate_data: Any = None,  # noqa: ARG002
        destroy_vifs: bool = True,  # noqa: ARG002
        destroy_secrets: bool = True,  # noqa: ARG002
    ) -> None:
        """Removes what a failed build left."""
        remove_all(instance)

    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """podman does it at start."""

    def unplug_vifs(self, instance: Any, network_info: Any) -> None:
        """podman does it at removal."""

    def manage_image_cache(self, context: Any, all_instances: Any) -> None:
        """podman keeps the images."""
