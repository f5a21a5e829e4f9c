"""Variables of the role pci_passthrough."""

from __future__ import annotations

from strata.models.hypervisors import passthrough
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Nothing that all hypervisors share."""
    return {}


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Variables of one hypervisor: its kinds of cards, with PCI identifier and number."""
    cards = passthrough(site).get(host, {})
    return {
        "pci_passthrough_cards": [
            {"kind": kind, "id": site.accelerators[kind].pci_id, "count": count}
            for kind, count in sorted(cards.items())
        ]
    }
