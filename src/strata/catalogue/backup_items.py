"""What of a site is backed up: NFS exports, volumes of services, databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strata.catalogue.needs.left_out import LeftOutOfBackups
from strata.catalogue.site_needs import databases
from strata.catalogue.site_services import needed
from strata.catalogue.site_volumes import export_paths
from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site

ACCESS_KEY, SECRET_KEY, PASSWORD = "backup_access_key", "backup_secret_key", "backup_password"
"""Secrets of the site, which the operator provides: what only Strata had would be lost with the deployment host."""


def backup_items(site: Site, roles: Iterable[str]) -> dict[str, str]:
    """Items that a host backs up: `export/NAME` to its directory, `database/NAME` to the name.

    Args:
        site: the model; `hosts.backup.exclude` names items that are left out.
        roles: of the host in site.yaml, which determine what it stores.
    """
    targets: dict[str, str] = {}
    backup = site.hosts.backup
    if "nfs_server" in roles:
        targets |= {f"export/{name}": str(path) for name, path in export_paths(site).items()}
    # pg_dump of several servers would run on each; pgBackRest backs up the primary
    archived = backup is not None and backup.postgresql is not None
    if "postgresql" in roles and not (archived and _servers(site) > 1):
        targets |= {f"database/{name}": name for name in databases(site)}
    excluded = backup.exclude if backup else ()
    return {item: target for item, target in targets.items() if item not in excluded}


def backup_exclude(site: Site, roles: Iterable[str]) -> list[str]:
    """Patterns of restic: paths on a host that its backups leave out.

    Args:
        site: the model.
        roles: of the host in site.yaml.
    """
    return list(_left_out(site)) if "nfs_server" in roles else []


def _servers(site: Site) -> int:
    """Hosts with the role postgresql."""
    return sum("postgresql" in host.roles for host in declared_hosts(site))


def _left_out(site: Site) -> Iterator[str]:
    """Patterns of restic, absolute paths on the NFS server; none at sites without a storage class of their own."""
    storage, nfs = site.platform.storage_class, site.hosts.nfs
    if storage is None or nfs is None:
        return
    for export in (export for export in nfs.exports if export.name == storage.export):
        for service, need in needed(site, LeftOutOfBackups):
            # as strata.platform.storage_class names the folder of a claim
            volume = export.path / f"{service.namespace_of(site)}-{need.claim}-pvc-*"
            yield from (str(volume / folder) for folder in need.folders)
