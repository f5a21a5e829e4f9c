"""Catalogue of the accelerators that Strata knows how to hand to instances.

PCI identifiers are those of the PCI ID Repository (pci.ids). The device type is what nova's `[pci]` options need:
`type-PF` for cards whose firmware announces SR-IOV, `type-PCI` for the others. Memory is that of the vendor's
data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from strata.models.types import Count, Size

NVIDIA = "10de"
XILINX = "10ee"
NVIDIA_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True)
class Accelerator:
    """One kind of card.

    Args:
        kind: the name in site files, flavors and PCI aliases.
        vendor_id: PCI vendor, four hexadecimal digits; a string, since nova refuses `[pci]` numbers.
        product_id: PCI device, four hexadecimal digits.
        device_type: how nova must claim it.
        description: the vendor's name.
        memory: on the card.
        resource: the extended resource of a Kubernetes node that has it.
        category: what it is.
    """

    kind: str
    vendor_id: str
    product_id: str
    device_type: Literal["type-PCI", "type-PF"]
    description: str
    memory: Size
    resource: str
    category: Literal["gpu", "fpga"] = "gpu"

    @property
    def device_spec(self) -> dict[str, str]:
        """nova's `[pci] device_spec` on hypervisors with the card."""
        return {"vendor_id": self.vendor_id, "product_id": self.product_id}

    @property
    def alias(self) -> dict[str, str]:
        """nova's `[pci] alias`, the same on hypervisors and controllers."""
        return self.device_spec | {"device_type": self.device_type, "name": self.kind, "numa_policy": "preferred"}


def _nvidia(kind: str, product_id: str, sriov: bool, description: str, gibibytes: int) -> Accelerator:
    device_type: Literal["type-PCI", "type-PF"] = "type-PF" if sriov else "type-PCI"
    return Accelerator(kind, NVIDIA, product_id, device_type, description, Size(gibibytes * 2**30), NVIDIA_RESOURCE)


def _alveo(kind: str, product_id: str, description: str, gibibytes: int) -> Accelerator:
    resource = f"amd.com/fpga-{kind}"
    return Accelerator(kind, XILINX, product_id, "type-PCI", description, Size(gibibytes * 2**30), resource, "fpga")


CATALOGUE: dict[str, Accelerator] = {
    a.kind: a
    for a in (
        _nvidia("gtx1080ti", "1b06", False, "NVIDIA GeForce GTX 1080 Ti", 11),
        _nvidia("rtx2080ti", "1e07", False, "NVIDIA GeForce RTX 2080 Ti", 11),
        _nvidia("rtx5000", "1eb0", False, "NVIDIA Quadro RTX 5000", 16),
        _nvidia("a6000", "2230", False, "NVIDIA RTX A6000", 48),
        _nvidia("p100", "15f8", False, "NVIDIA Tesla P100 PCIe 16 GB", 16),
        # as TACC prints it: "GV100GL [Tesla V100 PCIe 16GB]"
        _nvidia("v100", "1db4", False, "NVIDIA Tesla V100 PCIe 16 GB", 16),
        _nvidia("v100-32gb", "1db6", False, "NVIDIA Tesla V100 PCIe 32 GB", 32),
        _nvidia("t4", "1eb8", True, "NVIDIA Tesla T4", 16),
        _nvidia("a30", "20b7", True, "NVIDIA A30 PCIe", 24),
        _nvidia("a40", "2235", True, "NVIDIA A40", 48),
        _nvidia("a100", "20f1", True, "NVIDIA A100 PCIe 40 GB", 40),
        _nvidia("a100-80gb", "20b5", True, "NVIDIA A100 PCIe 80 GB", 80),
        _nvidia("l40", "26b5", True, "NVIDIA L40", 48),
        _nvidia("h100", "2331", True, "NVIDIA H100 PCIe 80 GB", 80),
        _alveo("u50", "5020", "AMD Xilinx Alveo U50", 8),
        _alveo("u250", "5004", "AMD Xilinx Alveo U250", 64),
    )
}
"""By kind."""


def _known(value: str) -> str:
    if value not in CATALOGUE:
        raise PydanticCustomError(
            "accelerator_kind",
            "is not an accelerator that Strata knows",
            {"choices": list(CATALOGUE), "fix": f"one of {', '.join(CATALOGUE)}"},
        )
    return value


AcceleratorKind = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(CATALOGUE)})]

AcceleratorCounts = Annotated[dict[AcceleratorKind, Count], Field(max_length=len(CATALOGUE))]
"""Kind to number of cards."""
