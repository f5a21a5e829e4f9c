"""The accelerators of a lab's hypervisors: PCI devices without hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata.models.accelerator_catalogue import Accelerator

CLASS_CODES = {"gpu": "030200", "fpga": "120000"}
"""PCI class codes: 3D controller, processing accelerator."""


@dataclass(frozen=True)
class SimulatedCard:
    """One card in a slot.

    Args:
        address: domain:bus:slot.function.
        accelerator: its kind.
        numa_node: of the slot.
    """

    address: str
    accelerator: Accelerator
    numa_node: int

    @property
    def class_code(self) -> str:
        """PCI's class code, six hexadecimal digits."""
        return CLASS_CODES[self.accelerator.category]

    @property
    def option(self) -> str:
        """As nova's lab driver reads it: `address,vendor,product,class,device type,NUMA node`."""
        card = self.accelerator
        fields = (self.address, card.vendor_id, card.product_id, self.class_code, card.device_type, self.numa_node)
        return ",".join(map(str, fields))


def simulated_cards(kinds: Mapping[str, Accelerator], held: Mapping[str, int]) -> Iterator[SimulatedCard]:
    """The cards of a hypervisor; addresses depend on the order of kinds only.

    Args:
        kinds: those of the site.
        held: kind to number of cards.
    """
    total = sum(held.values())
    index = 0
    for kind, count in sorted(held.items()):
        for _ in range(count):
            # buses 0x10, 0x18, …, 0xf8 of one PCI domain, then the next domain
            domain, slot = divmod(index, 30)
            node = 0 if 2 * index < total else 1
            yield SimulatedCard(f"{domain:04x}:{0x10 + 8 * slot:02x}:00.0", kinds[kind], node)
            index += 1
