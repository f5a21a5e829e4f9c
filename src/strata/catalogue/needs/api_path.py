"""Paths of the site's API, whose name several services share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strata.catalogue.needs.hostname import Hostname
from strata.catalogue.service import ServiceContext
from strata.models.site import Site


@dataclass(frozen=True)
class ApiPath(Hostname):
    """Paths below https://<platform.api_hostname>.<domain>, by an Ingress of the service's chart; other paths of that
    name are other services'. Certificate, DNS and front page are as for a Hostname.

    Args:
        paths: below which everything is this service's own, "/v3/pods"; the first is shown as its address.
    """

    label: str = field(default="", init=False)
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # by path segments, as an Ingress has prefixes
        if not self.paths or any(not path.startswith("/") or path.endswith("/") for path in self.paths):
            raise ValueError(f"paths begin with a slash, end without one, and are at least one: {self.paths}")

    @property
    def path(self) -> str:
        """The first."""
        return self.paths[0]

    def label_at(self, site: Site) -> str:
        """As the site file names it."""
        return site.platform.api_hostname

    def provide(self, context: ServiceContext[Any]) -> dict[str, Any]:
        """host, className and paths of the Ingress."""
        return {**super().provide(context), "paths": list(self.paths)}
