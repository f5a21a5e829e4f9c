"""Options of the section [lab]."""

from __future__ import annotations

from dataclasses import dataclass

import nova.conf
from oslo_config import cfg

CONF = nova.conf.CONF

OPTIONS = [
    cfg.StrOpt("site", required=True, help="Name of the site; part of every name and label in podman."),
    cfg.StrOpt("podman_url", required=True, help="Socket of the host's podman service, unix://PATH."),
    cfg.StrOpt("podman", default="/usr/bin/podman", help="The podman program, used as a remote client."),
    cfg.IntOpt("vcpus", min=1, default=16, help="Virtual CPUs that the hypervisor offers."),
    cfg.IntOpt("memory_mb", min=1, default=32768, help="Memory that the hypervisor offers, in MiB."),
    cfg.IntOpt("disk_gb", min=1, default=200, help="Disk that the hypervisor offers, in GiB."),
    cfg.MultiStrOpt(
        "device",
        default=[],
        help="A PCI device of the hypervisor: address,vendor,product,class,device type,NUMA node. Repeat per device.",
    ),
    cfg.IntOpt("mtu", min=576, default=1400, help="Largest packet on the instances' networks, in bytes."),
]
CONF.register_opts(OPTIONS, "lab")


@dataclass(frozen=True)
class Device:
    """One PCI device of the hypervisor.

    Args:
        address: domain:bus:slot.function.
        vendor_id: four hexadecimal digits.
        product_id: four hexadecimal digits.
        class_code: six hexadecimal digits, PCI's class code.
        device_type: type-PCI or type-PF.
        numa_node: of the slot.
    """

    address: str
    vendor_id: str
    product_id: str
    class_code: str
    device_type: str
    numa_node: int

    @classmethod
    def parse(cls, text: str) -> Device:
        """Reads one value of the option `device`.

        Raises:
            ValueError: it does not have six fields, or a node is not a number.
        """
        fields = [field.strip() for field in text.split(",")]
        if len(fields) != 6:
            raise ValueError(f"[lab] device = {text}: six fields are needed, found {len(fields)}")
        address, vendor_id, product_id, class_code, device_type, numa_node = fields
        return cls(address, vendor_id, product_id, class_code, device_type, int(numa_node))


def devices() -> list[Device]:
    """The devices that the configuration lists."""
    return [Device.parse(text) for text in CONF.lab.device]
