"""Volumes and exports of one site that its services need, and those of its tenants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.catalogue.needs.shared_volume import (
    TENANT_VOLUME_SIZE,
    NfsFolder,
    SharedVolume,
    TenantFolders,
    tenant_exports,
)
from strata.catalogue.service import Service
from strata.catalogue.site_services import needed
from strata.models.hosts import NfsExport
from strata.models.platform import Tenant
from strata.models.site import Site


@dataclass(frozen=True)
class MountedVolume:
    """A volume of the cluster.

    Args:
        claim: name of its PersistentVolumeClaim.
        namespace: of the claim.
        path: on the NFS server, as clients name it.
        size: capacity, as Kubernetes writes it.
        owner: numeric user that may write.
        group: numeric group that may write.
        read_only: whether pods mount it read-only.
        server: that has it; empty: the site's own.
    """

    claim: str
    namespace: str
    path: str
    size: str
    owner: int
    group: int
    read_only: bool = False
    server: str = ""

    @property
    def name(self) -> str:
        """Of the PersistentVolume."""
        return f"{self.namespace}-{self.claim}"


def service_volumes(site: Site) -> tuple[tuple[Service[Any], SharedVolume], ...]:
    """The volumes that the site's services need; none without an NFS server."""
    return () if site.hosts.nfs is None else tuple(needed(site, SharedVolume))


def export_paths(site: Site) -> dict[str, Path]:
    """Export to directory: those that the site names, and the volumes of its services."""
    named = {export.name: export.path for export in site.hosts.nfs.exports} if site.hosts.nfs else {}
    return named | {need.name: need.path(site) for _, need in service_volumes(site)}


def limited_paths(site: Site) -> tuple[Path, ...]:
    """Directories on the NFS server whose file systems need quotas of projects: those with limits for their folders."""
    return tuple(need.path(site) for _, need in service_volumes(site) if need.folder_limit)


def volumes(site: Site) -> tuple[MountedVolume, ...]:
    """The cluster's volumes: those of services, with the folders of tenants in them; each tenant's folder in the
    exports with `tenants: true`, for the tenant and for the services that need it; the folders that services only read.
    """
    if site.cluster is None or site.hosts.nfs is None:
        return ()
    services = (
        MountedVolume(need.name, service.namespace_of(site), f"/{need.name}", need.size, need.owner, need.group)
        for service, need in service_volumes(site)
    )
    of_tenants = (
        MountedVolume(need.name, t.name, f"/{need.name}/{t.name}", need.size, need.owner, need.group)
        for _, need in service_volumes(site)
        if need.tenants
        for t in site.platform.tenants
    )
    folders = [(export, t) for export in tenant_exports(site) for t in site.platform.tenants]
    tenants = (_folder(export, t, export.name, t.name) for export, t in folders)
    of_services = (
        _folder(export, t, f"{export.name}-{t.name}", need.namespace or service.namespace_of(site))
        for service, need in needed(site, TenantFolders)
        for export, t in folders
        if export.name == need.export
    )
    folders_of_services = (
        MountedVolume(
            need.claim, service.namespace_of(site), str(need.path), TENANT_VOLUME_SIZE, 0, 0, True, need.server
        )
        for service, need in needed(site, NfsFolder)
    )
    return (*services, *of_tenants, *tenants, *of_services, *folders_of_services)


def _folder(export: NfsExport, tenant: Tenant, claim: str, namespace: str) -> MountedVolume:
    path, group = f"/{export.name}/{tenant.name}", tenant.group_id or 0
    return MountedVolume(claim, namespace, path, TENANT_VOLUME_SIZE, 0, group, export.read_only)
