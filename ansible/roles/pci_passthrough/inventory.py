"""Variables of the role pci_passthrough."""

from __future__ import annotations

from strata.models.hypervisors import passthrough, passthrough_devices, passthrough_variables
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Nothing that all hypervisors share."""
    return {}


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Variables of one hypervisor: its kinds of cards, with PCI identifier and number, and chosen devices."""
    return passthrough_variables(site, passthrough(site).get(host, {}), passthrough_devices(site).get(host))
