"""PCI devices of a host that instances get, where its accelerators' kinds alone do not determine them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import PciAddress


class PciPassthrough(Model):
    """PCI devices of a host that instances get, or that nothing may use."""

    addresses: Annotated[
        tuple[PciAddress, ...],
        Field(
            description="Cards that instances get, one for each of the host's accelerators; others of the same kind "
            "stay with the host. Default: all cards of these kinds."
        ),
    ] = ()
    unused: Annotated[
        tuple[PciAddress, ...],
        Field(
            description="Devices that share an IOMMU group with a card and that nothing uses; without them, such a "
            "card is refused. kolla: needs addresses."
        ),
    ] = ()
