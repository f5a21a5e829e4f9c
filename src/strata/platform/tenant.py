"""A group of users with a namespace of its own."""

from __future__ import annotations

from strata.catalogue.service import Values
from strata.models import Site
from strata.models.platform import Tenant
from strata.models.types import Size
from strata.platform.accelerators import by_resource, cluster_resources


def values(site: Site, tenant: Tenant) -> Values:
    """Values of helm/tenant; cards that the quota does not name are out of reach."""
    accelerators = by_resource(tenant.quota.accelerators)
    return {
        "namespace": tenant.name,
        "quota": {
            "cpu": str(tenant.quota.cpu),
            "memory": memory(tenant.quota.memory),
            "accelerators": accelerators,
            "forbidden": [r for r in cluster_resources(site) if r not in accelerators],
        },
    }


def memory(size: Size) -> str:
    """A size as Kubernetes writes it."""
    gibibytes, rest = divmod(size.bytes, 2**30)
    return f"{size.mebibytes}Mi" if rest else f"{gibibytes}Gi"
