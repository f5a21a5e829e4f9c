"""A range of addresses of a subnet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import IPAddress


class AddressPool(Model):
    """Addresses that neutron assigns to instances, including both ends."""

    start: Annotated[IPAddress, Field(description="First address.")]
    end: Annotated[IPAddress, Field(description="Last address.")]

    @property
    def size(self) -> int:
        """Number of addresses."""
        return int(self.end) - int(self.start) + 1
