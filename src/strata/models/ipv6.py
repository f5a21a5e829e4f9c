"""IPv6 beside IPv4 in a network of the project."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model
from strata.models.types import IPAddress, IPv6Net

SLAAC_PREFIX = 64
"""The only prefix length from which hosts form addresses of their own."""


def _gateway(data: dict[str, Any]) -> IPv6Address:
    address: IPv6Address = data["cidr"][1]
    return address


class IPv6Subnet(Model):
    """A second subnet of a network, with IPv6 addresses."""

    cidr: Annotated[IPv6Net, Field(description="Addresses of the subnet.")]
    addressing: Annotated[
        Literal["slaac", "dhcpv6-stateless", "dhcpv6-stateful"],
        Field(
            description="slaac: instances form their addresses from router advertisements. dhcpv6-stateless: the same, "
            "with name servers by DHCPv6. dhcpv6-stateful: addresses by DHCPv6."
        ),
    ] = "slaac"
    gateway: Annotated[IPAddress, Field(description="Router of the subnet. Default: its first address.")] = Field(
        default_factory=_gateway
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.addressing != "dhcpv6-stateful" and self.cidr.prefixlen != SLAAC_PREFIX:
            raise PydanticCustomError(
                "slaac_prefix",
                "has the prefix length {length}, and {addressing} needs {needed}",
                {
                    "key": "cidr",
                    "length": self.cidr.prefixlen,
                    "addressing": self.addressing,
                    "needed": SLAAC_PREFIX,
                    "fix": f"a /{SLAAC_PREFIX}, or addressing: dhcpv6-stateful",
                },
            )
        if self.cidr.prefixlen > 120:
            raise PydanticCustomError(
                "ipv6_small",
                "has too few addresses for instances",
                {"key": "cidr", "fix": "a prefix of /120 or shorter"},
            )
        if self.gateway not in self.cidr:
            raise PydanticCustomError(
                "address_outside",
                "is not in {cidr}",
                {"key": "gateway", "cidr": str(self.cidr), "fix": f"an address of {self.cidr}"},
            )
        return self
