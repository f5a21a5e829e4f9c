"""Catalogue of the accelerators that are built in; a site describes others (accelerator_kinds.py).

Sources of its figures:

- PCI identifiers: the PCI ID Repository, held against Debian's package pci.ids (tests/contract/models). An Alveo has
  the identifier of the shell it was flashed with; these are the XDMA shells'.
- device type: what nova's `[pci]` options need, `type-PF` for cards whose firmware announces SR-IOV, `type-PCI` for
  the others.
- memory: the vendor's data sheet; where the PCI ID Repository names it, the test compares the two.
- compute capability: developer.nvidia.com/cuda-gpus and /cuda-legacy-gpus.
- MIG: docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html; profiles and how many fit: the layouts
  of NVIDIA's mig-parted (deployments/systemd/config-default.yaml).
- end of support before Turing: release 580 is the last driver (NVIDIA's Unix graphics feature deprecation schedule,
  forums.developer.nvidia.com/t/60588), CUDA 12 the last toolkit (release notes of CUDA 13.0, "Deprecated
  Architectures"); open kernel modules begin with Turing (same schedule, release 560).
- branches: docs.nvidia.com/datacenter/tesla/drivers, "Supported Drivers and CUDA Toolkit Versions": R580 is the
  long-term branch until June 2028, and runs CUDA 13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strata.models.types import Size

NVIDIA = "10de"
XILINX = "10ee"
NVIDIA_RESOURCE = "nvidia.com/gpu"
TURING = (7, 5)
"""Compute capability of the oldest GPUs that NVIDIA's current driver and CUDA support."""
LONG_TERM_BRANCH = 580
"""The driver branch with long-term support; it drives every GPU of the catalogue."""
LAST_BRANCH_BEFORE_TURING = 580
LAST_CUDA_BEFORE_TURING = 12


@dataclass(frozen=True)
class Accelerator:
    """One kind of card.

    Args:
        kind: the name in site files, flavors and PCI aliases.
        vendor_id: PCI vendor, four hexadecimal digits; a string, because nova refuses `[pci]` numbers.
        product_id: PCI device, four hexadecimal digits.
        device_type: how nova must claim it.
        description: the vendor's name.
        memory: on the card.
        resource: the extended resource of a Kubernetes node that has it.
        compute_capability: of an NVIDIA GPU, major and minor; None for other cards.
        mig_profiles: GPU instances that it can be cut into (MIG), each with how many fit; empty: it cannot.
        category: what it is.
    """

    kind: str
    vendor_id: str
    product_id: str
    device_type: Literal["type-PCI", "type-PF"]
    description: str
    memory: Size
    resource: str
    compute_capability: tuple[int, int] | None = None
    mig_profiles: Mapping[str, int] = field(default_factory=dict, hash=False)
    category: Literal["gpu", "fpga"] = "gpu"

    @property
    def pci_id(self) -> str:
        """Vendor and product as lspci prints them: 10de:1db4."""
        return f"{self.vendor_id}:{self.product_id}"

    @property
    def device_spec(self) -> dict[str, str]:
        """nova's `[pci] device_spec` on hypervisors with the card."""
        return {"vendor_id": self.vendor_id, "product_id": self.product_id}

    @property
    def alias(self) -> dict[str, str]:
        """nova's `[pci] alias`, the same on hypervisors and controllers."""
        return self.device_spec | {"device_type": self.device_type, "name": self.kind, "numa_policy": "preferred"}

    @property
    def before_turing(self) -> bool:
        """Whether it is an NVIDIA GPU of the generations Pascal and Volta, whose support has ended."""
        return self.compute_capability is not None and self.compute_capability < TURING

    @property
    def last_driver_branch(self) -> int | None:
        """The last branch of NVIDIA's driver that supports it; None where none is the last yet."""
        return LAST_BRANCH_BEFORE_TURING if self.before_turing else None

    @property
    def last_cuda(self) -> int | None:
        """The last major version of CUDA that supports it; None where none is the last yet."""
        return LAST_CUDA_BEFORE_TURING if self.before_turing else None

    @property
    def open_kernel_modules(self) -> bool:
        """Whether NVIDIA's open kernel modules drive it; else it needs the proprietary ones."""
        return self.compute_capability is not None and not self.before_turing


def _nvidia(
    kind: str,
    product_id: str,
    description: str,
    gibibytes: int,
    capability: tuple[int, int],
    *,
    sriov: bool = False,
    mig: Mapping[str, int] | None = None,
) -> Accelerator:
    device_type: Literal["type-PCI", "type-PF"] = "type-PF" if sriov else "type-PCI"
    memory = Size(gibibytes * 2**30)
    return Accelerator(
        kind, NVIDIA, product_id, device_type, description, memory, NVIDIA_RESOURCE, capability, mig or {}
    )


def _seven_slices(seventh: int, quarter: int, half: int, whole: int) -> dict[str, int]:
    """MIG profiles of GPUs with seven slices, from the memory of their instances in GB."""
    return {
        f"1g.{seventh}gb": 7,
        f"1g.{quarter}gb": 4,
        f"2g.{quarter}gb": 3,
        f"3g.{half}gb": 2,
        f"4g.{half}gb": 1,
        f"7g.{whole}gb": 1,
    }


_MIG_24 = {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1}
_MIG_40 = _seven_slices(5, 10, 20, 40)
_MIG_80 = _seven_slices(10, 20, 40, 80)
_MIG_141 = _seven_slices(18, 35, 71, 141)


def _alveo(kind: str, product_id: str, description: str, gibibytes: int) -> Accelerator:
    memory, resource = Size(gibibytes * 2**30), f"amd.com/fpga-{kind}"
    return Accelerator(kind, XILINX, product_id, "type-PCI", description, memory, resource, category="fpga")


CATALOGUE: dict[str, Accelerator] = {
    a.kind: a
    for a in (
        _nvidia("gtx1080ti", "1b06", "NVIDIA GeForce GTX 1080 Ti", 11, (6, 1)),
        _nvidia("p100", "15f8", "NVIDIA Tesla P100 PCIe 16 GB", 16, (6, 0)),
        # as TACC prints it: "GV100GL [Tesla V100 PCIe 16GB]"
        _nvidia("v100", "1db4", "NVIDIA Tesla V100 PCIe 16 GB", 16, (7, 0)),
        _nvidia("v100-32gb", "1db6", "NVIDIA Tesla V100 PCIe 32 GB", 32, (7, 0)),
        _nvidia("v100s", "1df6", "NVIDIA Tesla V100S PCIe 32 GB", 32, (7, 0)),
        _nvidia("v100-sxm2", "1db1", "NVIDIA Tesla V100 SXM2 16 GB", 16, (7, 0)),
        _nvidia("v100-sxm2-32gb", "1db5", "NVIDIA Tesla V100 SXM2 32 GB", 32, (7, 0)),
        # sold under two identifiers: the first revision, and revision A
        _nvidia("rtx2080ti-1e04", "1e04", "NVIDIA GeForce RTX 2080 Ti (1e04)", 11, (7, 5)),
        _nvidia("rtx2080ti", "1e07", "NVIDIA GeForce RTX 2080 Ti Rev. A", 11, (7, 5)),
        _nvidia("rtx5000", "1eb0", "NVIDIA Quadro RTX 5000", 16, (7, 5)),
        _nvidia("t4", "1eb8", "NVIDIA Tesla T4", 16, (7, 5), sriov=True),
        _nvidia("a6000", "2230", "NVIDIA RTX A6000", 48, (8, 6)),
        _nvidia("a30", "20b7", "NVIDIA A30 PCIe", 24, (8, 0), sriov=True, mig=_MIG_24),
        _nvidia("a40", "2235", "NVIDIA A40", 48, (8, 6), sriov=True),
        _nvidia("a100", "20f1", "NVIDIA A100 PCIe 40 GB", 40, (8, 0), sriov=True, mig=_MIG_40),
        _nvidia("a100-80gb", "20b5", "NVIDIA A100 PCIe 80 GB", 80, (8, 0), sriov=True, mig=_MIG_80),
        _nvidia("a100-sxm4", "20b0", "NVIDIA A100 SXM4 40 GB", 40, (8, 0), sriov=True, mig=_MIG_40),
        _nvidia("a100-sxm4-80gb", "20b2", "NVIDIA A100 SXM4 80 GB", 80, (8, 0), sriov=True, mig=_MIG_80),
        _nvidia("l4", "27b8", "NVIDIA L4", 24, (8, 9), sriov=True),
        _nvidia("l40", "26b5", "NVIDIA L40", 48, (8, 9), sriov=True),
        _nvidia("l40s", "26b9", "NVIDIA L40S", 48, (8, 9), sriov=True),
        _nvidia("h100", "2331", "NVIDIA H100 PCIe 80 GB", 80, (9, 0), sriov=True, mig=_MIG_80),
        _nvidia("h100-sxm5", "2330", "NVIDIA H100 SXM5 80 GB", 80, (9, 0), sriov=True, mig=_MIG_80),
        _nvidia("h200", "2335", "NVIDIA H200 SXM 141 GB", 141, (9, 0), sriov=True, mig=_MIG_141),
        _nvidia("h200-nvl", "233b", "NVIDIA H200 NVL 141 GB", 141, (9, 0), sriov=True, mig=_MIG_141),
        _alveo("u50", "5020", "AMD Xilinx Alveo U50", 8),
        _alveo("u250", "5004", "AMD Xilinx Alveo U250", 64),
    )
}
"""By kind. Only the models read it: everything else reads `Site.accelerators`, which has the site's own kinds too."""
