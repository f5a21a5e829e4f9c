"""Variables of the role nfs_server."""

from __future__ import annotations

from strata.catalogue.needs.shared_volume import SharedVolume
from strata.catalogue.site_volumes import service_volumes
from strata.inventory.clients import NFS_ROLES, SERVICE_ROLES
from strata.inventory.topology import host_networks_with
from strata.models.hosts import NfsExport, export_id
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The exports, open to hosts that mount them; volumes of services and claims, open to the cluster's nodes."""
    clients = host_networks_with(NFS_ROLES, site, outputs)
    nodes = host_networks_with(SERVICE_ROLES, site, outputs)
    exports = site.hosts.nfs.exports if site.hosts.nfs else ()
    claims = site.platform.storage_class.export if site.platform.storage_class else None
    named = [_export(site, export, nodes if export.name == claims else clients) for export in exports]
    return {"nfs_server_exports": [*named, *(_volume(site, need, nodes) for _, need in service_volumes(site))]}


def _volume(site: Site, need: SharedVolume, clients: list[str]) -> dict[str, object]:
    values: dict[str, object] = {
        "name": need.name,
        "id": export_id(need.name),
        "path": str(need.path(site)),
        "clients": clients,
        "squash_root": not need.root,
        "owner": need.owner,
        "group": need.group,
        "mode": need.mode,
        "size": need.size.removesuffix("i"),  # truncate(1) writes GiB as G
    }
    if need.folder_limit:
        values["folder_limit"] = need.folder_limit
    if need.tenants:
        values["folders"] = [
            {"name": t.name, "group_id": need.group, "owner": need.owner} for t in site.platform.tenants
        ]
    if need.removal_folder:
        values["removal_folder"] = need.removal_folder
    return values


def _export(site: Site, export: NfsExport, clients: list[str]) -> dict[str, object]:
    values: dict[str, object] = {
        "name": export.name,
        "id": export_id(export.name),
        "path": str(export.path),
        "clients": list(dict.fromkeys([*clients, *map(str, export.clients)])),
        "access": "ro" if export.read_only else "rw",
        "squash_root": not export.root,
    }
    if export.tenants:
        tenants = [{"name": t.name, "group_id": t.group_id} for t in site.platform.tenants]
        values |= {"mode": "0755", "folders": tenants}
    return values
