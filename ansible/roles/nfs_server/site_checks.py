"""NFS exports: who may mount them, and whose folders they hold."""

from __future__ import annotations

from collections.abc import Iterator

from strata.catalogue.site_volumes import service_volumes
from strata.models.finding import Finding
from strata.models.hosts import export_id
from strata.models.key_path import KeyPath
from strata.models.site import Site

EXPORTS: KeyPath = ("hosts", "nfs", "exports")


def check(site: Site) -> Iterator[Finding]:
    """Numbers of exports, clients against the pod network, folders against the tenants' groups."""
    exports = site.hosts.nfs.exports if site.hosts.nfs else ()
    yield from _numbers(site)
    for index, export in enumerate(exports):
        for position, network in enumerate(export.clients):
            pods = site.cluster.pod_network if site.cluster else None
            if pods is not None and network.version == pods.version and network.overlaps(pods):
                clients: KeyPath = ("hosts", "nfs", "exports", index, "clients", position)
                why = f"overlaps with cluster.pod_network ({pods}): pods would mount the export as any user"
                yield Finding(clients, why, "remove it; pods use volumes, which their nodes mount")
    seen: dict[int, str] = {}
    for index, tenant in enumerate(site.platform.tenants):
        path: KeyPath = ("platform", "tenants", index)
        if tenant.group_id is None:
            for export in exports:
                if export.tenants:
                    why = f"has no group_id, and hosts.nfs.exports {export.name} holds a folder for each tenant"
                    yield Finding(path, why, f"group_id: {20001 + index}")
        elif tenant.group_id in seen:
            why = f"is already the group of {seen[tenant.group_id]}, which could read this tenant's folders"
            yield Finding((*path, "group_id"), why, "another number")
        else:
            seen[tenant.group_id] = tenant.name


def _numbers(site: Site) -> Iterator[Finding]:
    """The server distinguishes exports by a number of the name."""
    if site.hosts.nfs is None:
        return
    volumes = [(need.name, ("platform", "services", service.key)) for service, need in service_volumes(site)]
    exports = [(export.name, (*EXPORTS, index, "name")) for index, export in enumerate(site.hosts.nfs.exports)]
    numbers: dict[int, tuple[str, KeyPath]] = {}
    for name, path in [*volumes, *exports]:
        known, other = numbers.setdefault(export_id(name), (name, path))
        if known != name:
            why = f"has the export id of {known}, {export_id(name)}, by which the server distinguishes exports"
            yield Finding(path, why, "another name", other=other)
