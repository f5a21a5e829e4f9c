"""An entry of the site's front page, for what has no name at the load balancer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class FrontPageEntry(Need[None]):
    """What users read of a service that they use by a command. Entries of others are their Hostname's.

    Args:
        title: of the service, in users' words.
        summary: one sentence below the title.
        command: what users type.
    """

    title: str
    summary: str
    command: str

    def provide(self, context: ServiceContext[Any]) -> None:
        """Nothing: the page's own values have it."""
