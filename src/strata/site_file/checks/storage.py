"""The storage class: the export of its claims, and who needs it."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.declared_hosts import declared_roles
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion

STORAGE_CLASS: KeyPath = ("platform", "storage_class")
EXPORTS: KeyPath = ("hosts", "nfs", "exports")


def check(site: Site) -> Iterator[Finding]:
    """The export of the class of claims, quotas without it, and the certificates stored in a claim."""
    yield from _storage_class(site)
    yield from _certificates(site)


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
        if not exports and "nfs_server" in declared_roles(site):
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
