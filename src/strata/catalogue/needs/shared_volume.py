"""Shared storage: an export of the site's NFS server, as a volume in a namespace."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.catalogue.need import Need, role_findings
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding
from strata.models.hosts import NfsExport
from strata.models.key_path import KeyPath
from strata.models.site import Site

TENANT_VOLUME_SIZE = "10Gi"
"""Nominal: Kubernetes requires a size, and NFS does not enforce it."""


@dataclass(frozen=True)
class SharedVolume(Need[str]):
    """A directory on the site's NFS server that all pods of a service's namespace can mount, from all nodes at once.

    It is an export of its own, open to the cluster's nodes only. The kubelet creates `subPath` folders with the
    directory's mode and, as root of a node is the directory's owner here, the directory's owner and group.

    Args:
        name: of the claim and of the export; unique at the site.
        owner: numeric user that the directory belongs to.
        group: numeric group that the directory belongs to.
        mode: of the directory, octal.
        size: capacity, as Kubernetes writes it. Where the server creates the file system (in a container), its size.
        root: whether root of a node is root here, for services that change owners.
        folder_limit: most that each folder in it may use, in KiB, which the server's file system enforces; 0: all.
        tenants: it has a folder for each tenant, which is a volume in the tenant's namespace, by the same name. Pods
            there write with the volume's group, and see the tenant's folder only.
        removal_folder: name of a folder of the owner in it, whose content the server deletes as root: a service moves
            there what pods of any user have written; empty: none.
    """

    name: str
    owner: int
    group: int
    mode: str = "0770"
    size: str = "10Gi"
    root: bool = False
    folder_limit: int = 0
    tenants: bool = False
    removal_folder: str = ""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs an NFS server."""
        return role_findings(site, key, "nfs_server", f"for its volume {self.name}")

    def provide(self, context: ServiceContext[Any]) -> str:  # noqa: ARG002  # the name is the claim's
        """Name of the PersistentVolumeClaim in the service's namespace."""
        return self.name

    def path(self, site: Site) -> Path:
        """Its directory on the server.

        Raises:
            LookupError: the site has no section hosts.nfs; validation refuses that.
        """
        if site.hosts.nfs is None:
            raise LookupError(f"site {site.name} has no hosts.nfs; validation refuses that")
        return site.hosts.nfs.volumes / self.name


@dataclass(frozen=True)
class TenantFolders(Need[dict[str, str]]):
    """Each tenant's folder in an export with `tenants: true`, as a volume of its own in a namespace of the service.

    A pod that mounts one needs the tenant's `group_id`, as the tenant's own pods do.

    Args:
        export: name in `hosts.nfs.exports`.
        namespace: of the pods; empty: the service's first.
    """

    export: str
    namespace: str = ""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site has the export, with folders of tenants."""
        if self.export not in {export.name for export in tenant_exports(site)}:
            exports: KeyPath = ("hosts", "nfs", "exports")
            why = f"needs the NFS export {self.export} with folders of tenants, and there is none"
            fix = f"hosts: {{nfs: {{exports: [{{name: {self.export}, path: /srv/nfs/{self.export}, tenants: true}}]}}}}"
            yield Finding(key, why, fix, (exports,))

    def provide(self, context: ServiceContext[Any]) -> dict[str, str]:
        """Tenant to the name of the PersistentVolumeClaim."""
        return {tenant.name: f"{self.export}-{tenant.name}" for tenant in context.site.platform.tenants}


@dataclass(frozen=True)
class NfsFolder(Need[str]):
    """A folder of an NFS server that exists, as a read-only volume in the service's namespace.

    Args:
        name: unique among those of the service; at most 40 characters.
        path: as clients mount it.
        server: name or address, as nodes resolve it; empty: the site's own.
    """

    name: str
    path: Path
    server: str = ""

    @property
    def claim(self) -> str:
        """Name of the claim; another one for another folder, because a volume's source cannot change."""
        return f"{self.name}-{hashlib.sha256(f'{self.server}:{self.path}'.encode()).hexdigest()[:8]}"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site's own server needs a host."""
        return iter(()) if self.server else role_findings(site, key, "nfs_server", f"for the folder {self.path}")

    def provide(self, context: ServiceContext[Any]) -> str:  # noqa: ARG002  # the name is the claim's
        """Name of the PersistentVolumeClaim in the service's namespace."""
        return self.claim


def tenant_exports(site: Site) -> tuple[NfsExport, ...]:
    """Exports with a folder for each tenant."""
    return tuple(export for export in site.hosts.nfs.exports if export.tenants) if site.hosts.nfs else ()
