"""A client at the site's issuer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need, SecretReference

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class Client(Need[SecretReference]):
    """A client that gets tokens from the site's issuer; the operator registers it with an external issuer and provides
    its secret.

    Args:
        name: the client id.
        audiences: that its tokens are for.
    """

    name: str
    audiences: tuple[str, ...]

    @property
    def secret(self) -> str:
        """Name of the site's secret with the client's."""
        return f"{self.name.replace('-', '_')}_client_secret"

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The client's secret."""
        return {self.secret: context.secrets.get(self.secret)}

    def provide(self, context: ServiceContext[Any]) -> SecretReference:
        """Where its secret is."""
        return context.secret_reference(self.secret)
