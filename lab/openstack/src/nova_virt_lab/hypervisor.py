"""What a hypervisor is and has, as nova and placement ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import os_resource_classes as orc
from nova.objects import fields
from nova.virt import node
from nova.virt.lab.options import CONF, Device, devices
from nova.virt.lab.podman import containers
from oslo_serialization import jsonutils


class HypervisorMixin:
    """The part of nova's driver that is about the host: identity, resources, devices."""

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)  # type: ignore[call-arg]  # nova's class, which follows in the order of bases
        self._host: str = CONF.host
        self._devices = {device.address: device for device in devices()}

    def init_host(self, host: str) -> None:
        """Refuses to start where podman does not respond."""
        self._host = host
        containers(host)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:  # noqa: ARG002
        """One node, called as the host."""
        return [self._host]

    def get_host_ip_addr(self) -> str:
        """The controller's address."""
        return str(CONF.my_ip)

    def get_host_uptime(self) -> str:
        """In the form of `uptime`."""
        seconds = float(Path("/proc/uptime").read_text().split()[0])
        load = " ".join(Path("/proc/loadavg").read_text().split()[:3])
        return f"up {seconds / 86400:.0f} days, load average: {load}"

    def get_volume_connector(self, instance: Any) -> dict[str, str]:  # noqa: ARG002
        """How a volume service would address this host."""
        return {"ip": str(CONF.my_ip), "initiator": "lab", "host": self._host}

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
        ratios = self._get_allocation_ratios(provider_tree.data(nodename).inventory)  # type: ignore[attr-defined]  # nova's

        def inventory(resource: str, total: int, reserved: int) -> dict[str, Any]:
            limits = {"total": total, "min_unit": 1, "max_unit": total, "step_size": 1}
            return limits | {"allocation_ratio": ratios[resource], "reserved": reserved}

        reserved_disk = self._get_reserved_host_disk_gb_from_config()  # type: ignore[attr-defined]  # nova's
        provider_tree.update_inventory(
            nodename,
            {
                orc.VCPU: inventory(orc.VCPU, CONF.lab.vcpus, CONF.reserved_host_cpus),
                orc.MEMORY_MB: inventory(orc.MEMORY_MB, CONF.lab.memory_mb, CONF.reserved_host_memory_mb),
                orc.DISK_GB: inventory(orc.DISK_GB, CONF.lab.disk_gb, reserved_disk),
            },
        )

    def claimed(self, instance: Any) -> list[Device]:
        """The host's devices that nova's PCI tracker gave to an instance."""
        return [self._devices[d.address] for d in instance.get_pci_devices() if d.address in self._devices]


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
