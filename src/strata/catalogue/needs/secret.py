"""A secret of the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, SecretReference
from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class Secret(Need[SecretReference]):
    """A generated secret, or one that the operator provides by `secrets:` of the site file.

    Args:
        name: in the site's store, for `strata secrets`.
        key: in the service's Kubernetes Secret; default: the name.
        make: makes a value; default: a random text.
        keep_previous: whether a rotation keeps the value before, as `previous`.
    """

    name: str
    key: str = ""
    make: Callable[[], str] | None = None
    keep_previous: bool = False

    @property
    def previous(self) -> str:
        """Name of the secret with the value before the last rotation."""
        return f"{self.name}_previous"

    def value(self, context: ServiceContext[Any]) -> str:
        """The secret itself; generated at first use."""
        return context.secrets.get(self.name, self.make)

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The secret."""
        return {self.key or self.name: self.value(context)}

    def provide(self, context: ServiceContext[Any]) -> SecretReference:
        """Where it is."""
        return context.secret_reference(self.key or self.name)
