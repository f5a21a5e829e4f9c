"""nova virt driver whose instances are podman containers that boot systemd.

Option: `compute_driver = lab.driver.PodmanDriver`. One nova-compute process is one hypervisor, with its own host name
and state path. All truth is in podman's labels, so that containers outlive nova-compute and its controller.
"""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any, ClassVar

import os_resource_classes as orc
from nova import exception
from nova.compute import power_state
from nova.objects import fields
from nova.virt import driver, hardware, node
from nova.virt.lab import networks
from nova.virt.lab.options import CONF, Device, devices
from nova.virt.lab.podman import PodmanError, containers, podman, remove, status
from nova.virt.lab.seed import Seed
from oslo_concurrency import lockutils
from oslo_log import log as logging
from oslo_serialization import jsonutils

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

IMAGE_PROPERTY = "strata_image"
"""Property of the glance image that names the root filesystem in podman."""

VOLUMES = {"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}
"""Directories on volumes of their own: overlay does not stack on the container's overlay root."""

BOOT = (
    *("--systemd=false", "--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
    *("--privileged", "--cgroupns=private", "--device", "/dev/kmsg"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),  # noqa: S108  # mount points in the container
    *("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=20000:20000"),
    # plain files from the seed instead of podman's mounts: roles may replace them
    *("--no-hosts", "--dns", "none"),
)
STOP_SECONDS = 10


class PodmanDriver(driver.ComputeDriver):  # type: ignore[misc]  # nova ships no types
    """Instances as containers of the host's podman service."""

    capabilities: ClassVar[dict[str, bool]] = dict(
        driver.ComputeDriver.capabilities,
        has_imagecache=False,
        supports_attach_interface=False,
        supports_device_tagging=True,
        supports_image_type_raw=True,
        supports_image_type_qcow2=True,
    )

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)
        self._host: str = CONF.host
        self._devices = {device.address: device for device in devices()}

    # ---------------------------------------------------------------- hypervisor
    def init_host(self, host: str) -> None:
        """Refuses to start where podman does not answer."""
        self._host = host
        podman("version")

    def get_available_nodes(self, refresh: bool = False) -> list[str]:  # noqa: ARG002
        """One node, called as the host."""
        return [self._host]

    def get_host_ip_addr(self) -> str:
        """The controller's address."""
        return str(CONF.my_ip)

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        """What the hypervisor has, in nova's form."""
        used = {"vcpus": 0, "memory_mb": 0, "disk_gb": 0}
        for container in containers(self._host):
            for key in used:
                used[key] += int((container.get("Labels") or {}).get(f"strata.{key}", 0))
        topology = {"cores": CONF.lab.vcpus, "threads": 1, "sockets": 1}
        return {
            # the identity in state_path/compute_id; nova-compute refuses to start where it changed
            "uuid": node.get_local_node_uuid(),
            "vcpus": CONF.lab.vcpus,
            "memory_mb": CONF.lab.memory_mb,
            "local_gb": CONF.lab.disk_gb,
            "vcpus_used": used["vcpus"],
            "memory_mb_used": used["memory_mb"],
            "local_gb_used": used["disk_gb"],
            "disk_available_least": CONF.lab.disk_gb - used["disk_gb"],
            "hypervisor_type": "podman",
            "hypervisor_version": 4003001,
            "hypervisor_hostname": nodename,
            "cpu_info": jsonutils.dumps(
                {"arch": "x86_64", "model": "lab", "vendor": "lab", "features": [], "topology": topology}
            ),
            "supported_instances": [(fields.Architecture.X86_64, fields.HVType.FAKE, fields.VMMode.HVM)],
            "numa_topology": None,
            "pci_passthrough_devices": jsonutils.dumps([_reported(d) for d in self._devices.values()]),
        }

    def update_provider_tree(self, provider_tree: Any, nodename: str, allocations: Any = None) -> None:  # noqa: ARG002
        """What placement may hand out."""
        ratios = self._get_allocation_ratios(provider_tree.data(nodename).inventory)

        def inventory(resource: str, total: int, reserved: int) -> dict[str, Any]:
            limits = {"total": total, "min_unit": 1, "max_unit": total, "step_size": 1}
            return limits | {"allocation_ratio": ratios[resource], "reserved": reserved}

        reserved_disk = self._get_reserved_host_disk_gb_from_config()
        provider_tree.update_inventory(
            nodename,
            {
                orc.VCPU: inventory(orc.VCPU, CONF.lab.vcpus, CONF.reserved_host_cpus),
                orc.MEMORY_MB: inventory(orc.MEMORY_MB, CONF.lab.memory_mb, CONF.reserved_host_memory_mb),
                orc.DISK_GB: inventory(orc.DISK_GB, CONF.lab.disk_gb, reserved_disk),
            },
        )

    # ----------------------------------------------------------------- instances
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
        ports = list(network_info or [])
        name = container_name(instance)
        claimed = [self._devices[d.address] for d in instance.get_pci_devices() if d.address in self._devices]
        try:
            remove(name, volume_names(instance))
            image = root_filesystem(instance, image_meta)
            seed = self._seed(instance, ports, claimed, dict(injected_files or []))
            create = ["create", "--name", name, "--hostname", instance.hostname, *BOOT]
            create += [*self._labels(instance, claimed), *self._volumes(instance)]
            # one lock for making a network and using it: another nova-compute may be removing unused ones
            with lockutils.lock(networks.LOCK, external=True):
                podman(*create, *networks.arguments(ports), image)
            podman("cp", "-a=false", "-", f"{name}:/", stdin=seed.archive())
            if power_on:
                podman("start", name)
        except (PodmanError, ValueError) as error:
            LOG.error("spawn failed: %s", error, instance=instance)
            remove(name, volume_names(instance))
            raise exception.InstanceDeployFailure(reason=str(error)) from error
        LOG.info(
            "started in %.2f s with devices %s",
            time.monotonic() - started,
            [d.address for d in claimed],
            instance=instance,
        )

    def _labels(self, instance: Any, claimed: list[Device]) -> list[str]:
        labels = {
            "strata.site": CONF.lab.site,
            "strata.hypervisor": self._host,
            "strata.instance": instance.uuid,
            "strata.instance_name": instance.name,
            "strata.display_name": instance.display_name or "",
            "strata.vcpus": str(instance.flavor.vcpus),
            "strata.memory_mb": str(instance.flavor.memory_mb),
            "strata.disk_gb": str(instance.flavor.root_gb),
            "strata.devices": ",".join(device.address for device in claimed),
        }
        return [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]

    def _volumes(self, instance: Any) -> list[str]:
        options: list[str] = []
        for name, target in zip(volume_names(instance), VOLUMES.values(), strict=True):
            podman("volume", "create", "--label", f"strata.site={CONF.lab.site}", name)
            options += ["--volume", f"{name}:{target}:exec,dev,suid"]
        return options

    def _seed(self, instance: Any, ports: list[Any], claimed: list[Device], files: dict[str, Any]) -> Seed:
        return Seed(
            hostname=instance.hostname,
            machine_id=instance.uuid.replace("-", ""),
            addresses=[networks.ipv4(vif)["ips"][0]["address"] for vif in ports],
            name_servers=networks.name_servers(ports) or own_name_servers(),
            devices=claimed,
            login_user=CONF.lab.login_user,
            public_key=instance.key_data,
            user_data=base64.b64decode(instance.user_data) if instance.user_data else None,
            files={path: c if isinstance(c, bytes) else str(c).encode() for path, c in files.items()},
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
        remove(container_name(instance), volume_names(instance))
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
        remove(container_name(instance), volume_names(instance))

    # --------------------------------------------------------------------- power
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
        podman("start", container_name(instance))

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:  # noqa: ARG002
        """Stops the container as systemd's shutdown does."""
        podman("stop", "--time", str(min(timeout or STOP_SECONDS, STOP_SECONDS)), container_name(instance))

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
        wait = 0 if reboot_type == "HARD" else STOP_SECONDS
        podman("restart", "--time", str(wait), container_name(instance))

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
        if status(container_name(instance)) not in ("running", None):
            podman("start", container_name(instance))

    # ------------------------------------------------------------------- the rest
    def get_console_output(self, context: Any, instance: Any) -> bytes:  # noqa: ARG002
        """The journal of this boot, its last 500 lines."""
        command = ("journalctl", "--boot", "--no-pager", "--lines", "500")
        journal: str = podman("exec", container_name(instance), *command, check=False)
        return journal.encode()

    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """podman does it at start."""

    def unplug_vifs(self, instance: Any, network_info: Any) -> None:
        """podman does it at removal."""

    def manage_image_cache(self, context: Any, all_instances: Any) -> None:
        """podman keeps the images."""

    def poll_rebooting_instances(self, timeout: int, instances: Any) -> None:
        """A reboot is done when the call returns."""

    def get_host_uptime(self) -> str:
        """In the form of `uptime`."""
        seconds = float(Path("/proc/uptime").read_text().split()[0])
        load = " ".join(Path("/proc/loadavg").read_text().split()[:3])
        return f"up {seconds / 86400:.0f} days, load average: {load}"

    def get_volume_connector(self, instance: Any) -> dict[str, str]:  # noqa: ARG002
        """How a volume service would address this host."""
        return {"ip": str(CONF.my_ip), "initiator": "lab", "host": self._host}


def container_name(instance: Any) -> str:
    """Name of an instance's container: unique, and of the site."""
    return f"strata-{CONF.lab.site}-{instance.uuid}"


def volume_names(instance: Any) -> list[str]:
    """Names of an instance's volumes."""
    return [f"{container_name(instance)}-{name}" for name in VOLUMES]


def root_filesystem(instance: Any, image_meta: Any) -> str:
    """podman image that the instance starts from.

    Raises:
        ValueError: the glance image does not say.
    """
    # nova keeps image properties that it does not know in the instance's system metadata only
    reference = (instance.system_metadata or {}).get(f"image_{IMAGE_PROPERTY}")
    if not reference:
        raise ValueError(f"image {image_meta.name}: property {IMAGE_PROPERTY} is not set")
    return str(reference)


def own_name_servers() -> list[str]:
    """Name servers of the machine that nova-compute runs on."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


def _reported(device: Device) -> dict[str, Any]:
    return {
        "dev_id": "pci_" + device.address.replace(":", "_").replace(".", "_"),
        "address": device.address,
        "vendor_id": device.vendor_id,
        "product_id": device.product_id,
        "label": f"label_{device.vendor_id}_{device.product_id}",
        "status": "available",
        "dev_type": device.device_type,
        "parent_addr": None,
        "numa_node": device.numa_node,
    }
