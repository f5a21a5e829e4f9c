"""What a backup of the site's claims leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext
    from strata.models.site import Site


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


def left_out(site: Site) -> Iterator[str]:
    """Patterns of restic, absolute paths on the NFS server; none at sites without a storage class of their own."""
    from strata.catalogue.site import needed

    storage, nfs = site.platform.storage_class, site.hosts.nfs
    if storage is None or nfs is None:
        return
    for export in (one for one in nfs.exports if one.name == storage.export):
        for service, need in needed(site, LeftOutOfBackups):
            # as strata.platform.storage_class names the folder of a claim
            volume = export.path / f"{service.namespace_of(site)}-{need.claim}-pvc-*"
            yield from (str(volume / folder) for folder in need.folders)
