"""A group of users with a namespace of its own."""

from __future__ import annotations

from strata.catalogue.cluster_login import cluster_login, user_group
from strata.catalogue.issuer import administrators_group, tenant_group
from strata.catalogue.service import Values
from strata.catalogue.site_needs import reservation_accounts
from strata.models.extended_resources import cluster_resources, quota
from strata.models.platform import Tenant
from strata.models.site import Site
from strata.models.types import Size
from strata.platform import storage_class


def values(site: Site, tenant: Tenant) -> Values:
    """Values of helm/tenant; cards that the quota does not name are out of reach."""
    accelerators = quota(site, tenant.quota.accelerators)
    return {
        "namespace": tenant.name,
        "quota": {
            "cpu": str(tenant.quota.cpu),
            "memory": memory(tenant.quota.memory),
            "accelerators": accelerators,
            **_storage(site, tenant),
            "forbidden": [r for r in cluster_resources(site) if r not in accelerators],
        },
        "members": _subjects(site, tenant_group(tenant.name)),
        "principalInvestigators": _subjects(site, administrators_group(tenant.name)),
        "reservations": {"accounts": list(reservation_accounts(site))},
    }


def _storage(site: Site, tenant: Tenant) -> Values:
    """What claims of the storage class may ask for; nothing where the site has none."""
    if site.platform.storage_class is None:
        return {}
    storage = tenant.quota.storage
    return {"storage": {storage_class.NAME: memory(storage) if storage else "0"}}


def _subjects(site: Site, group: str) -> list[Values]:
    """A group of the issuer, for RoleBindings; none at a site without an issuer."""
    return [] if cluster_login(site) is None else [{"kind": "Group", "name": user_group(group)}]


def memory(size: Size) -> str:
    """A size as Kubernetes writes it."""
    gibibytes, rest = divmod(size.bytes, 2**30)
    return f"{size.mebibytes}Mi" if rest else f"{gibibytes}Gi"
