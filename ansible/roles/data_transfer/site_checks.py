"""Transfer nodes: the tenant and the export that their downloads are for."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion
from strata_roles.data_transfer.settings import DataTransfer

SECTION: KeyPath = ("hosts", "data_transfer")
EXPORTS: KeyPath = ("hosts", "nfs", "exports")
TENANTS: KeyPath = ("platform", "tenants")


def check(site: Site) -> Iterator[Finding]:
    """The tenant exists and has a group, the export has a folder for it."""
    settings = site.hosts.section(DataTransfer)
    if settings is None:
        return
    if settings.tenant is not None:
        tenants = {tenant.name: tenant for tenant in site.platform.tenants}
        path: KeyPath = (*SECTION, "tenant")
        if settings.tenant not in tenants:
            fix = suggestion(settings.tenant, list(tenants), "tenants")
            yield Finding(path, "no tenant has this name", fix, (TENANTS,))
        elif tenants[settings.tenant].group_id is None:
            why = "the tenant has no group_id, which the files of its downloads get"
            yield Finding(path, why, f"add group_id to the tenant {settings.tenant}", (TENANTS,))
    if settings.export is not None:
        yield from _export(site, settings.export)


def _export(site: Site, name: str) -> Iterator[Finding]:
    exports = {export.name: export for export in (site.hosts.nfs.exports if site.hosts.nfs else ())}
    path: KeyPath = (*SECTION, "export")
    if name not in exports:
        yield Finding(path, "no NFS export has this name", suggestion(name, list(exports), "exports"), (EXPORTS,))
    elif not exports[name].tenants:
        why = f"the export {name} has no folders of tenants, so that its files have no group that may read them"
        yield Finding(path, why, f"set tenants: true for {name}, or name another export", (EXPORTS,))
    elif exports[name].read_only:
        yield Finding(path, f"the export {name} is read-only", "remove read_only, or name another export", (EXPORTS,))
