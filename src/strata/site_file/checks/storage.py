"""NFS exports: who may mount them, and whose folders they hold."""

from __future__ import annotations

from collections.abc import Iterator

from strata.catalogue.site_volumes import service_volumes
from strata.models.finding import Finding
from strata.models.hosts import export_id
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion

STORAGE_CLASS: KeyPath = ("platform", "storage_class")
EXPORTS: KeyPath = ("hosts", "nfs", "exports")


def check(site: Site) -> Iterator[Finding]:
    """Numbers of exports, clients against the pod network, folders against the tenants' groups, the class of claims."""
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
    yield from _storage_class(site)
    yield from _certificates(site)


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


def _storage_class(site: Site) -> Iterator[Finding]:
    """The export exists, for nodes alone, and takes what the provisioner writes as root."""
    if site.platform.storage_class is None:
        for index, tenant in enumerate(site.platform.tenants):
            if tenant.quota.storage is not None:
                quota: KeyPath = ("platform", "tenants", index, "quota", "storage")
                why = "is for claims of the storage class, which the site does not have"
                yield Finding(quota, why, "platform: {storage_class: {export: NAME}}, or remove it", (STORAGE_CLASS,))
        return
    key: KeyPath = (*STORAGE_CLASS, "export")
    name = site.platform.storage_class.export
    exports = {export.name: export for export in (site.hosts.nfs.exports if site.hosts.nfs else ())}
    export = exports.get(name)
    if export is None:
        roles = {role for instance in (site.cloud.instances if site.cloud else ()) for role in instance.roles}
        roles |= {role for machine in site.hosts.machines for role in machine.roles}
        if not exports and "nfs_server" in roles:
            return  # reported at the server
        yield Finding(key, "no NFS export has this name", suggestion(name, list(exports), "exports"), (EXPORTS,))
        return
    if not export.root:
        why = f"the provisioner writes as root, and the export {name} makes root nobody"
        yield Finding(key, why, f"root: true for the export {name}", (EXPORTS,))
    if export.clients:
        why = f"the export {name} has clients, which would read every claim as any user"
        yield Finding(key, why, f"an export without clients, or remove the clients of {name}", (EXPORTS,))
    if export.tenants or export.read_only:
        why = f"the export {name} has {'tenants' if export.tenants else 'read_only'}: true"
        yield Finding(key, why, "an export of its own", (EXPORTS,))


def _certificates(site: Site) -> Iterator[Finding]:
    """An ingress controller that requests certificates stores them: without a class, its volume is never bound."""
    certificate = site.platform.ingress.certificate
    lacking = certificate.storage_class is None and site.platform.storage_class is None
    if certificate.source == "acme" and site.cluster is not None and lacking:
        key: KeyPath = ("platform", "ingress", "certificate", "source")
        why = "account and certificates are stored in a volume, and the site has no storage class"
        fix = (
            "platform: {storage_class: {export: NAME}}, or certificate: {storage_class: NAME} for one of the cluster's"
        )
        yield Finding(key, why, fix, (STORAGE_CLASS,))
