"""NFS exports: who may mount them, and whose folders they hold."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.checks.finding import Finding
from strata.models.site import Site
from strata.models.yaml_events import KeyPath


def check(site: Site) -> Iterator[Finding]:
    """Clients against the pod network, folders against the tenants' groups."""
    exports = site.hosts.nfs.exports if site.hosts.nfs else ()
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
