"""What a backup of the site's claims leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class LeftOutOfBackups(Need[None]):
    """Folders in a claim of the site's storage class whose content can be fetched again.

    Args:
        claim: name of the claim in the service's namespace.
        folders: in its volume.
    """

    claim: str
    folders: tuple[str, ...]

    def provide(self, context: ServiceContext[Any]) -> None:
        """Nothing: it changes backups only."""
