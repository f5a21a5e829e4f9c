"""A group of users with a namespace of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from strata.models import Site
from strata.models.platform import Tenant as TenantModel
from strata.platform.accelerators import by_resource, cluster_resources
from strata.platform.releases import SYSTEM_NAMESPACE, ChartRelease, ReleaseArgs
from strata.platform.values import Values, memory


@dataclass(frozen=True)
class TenantArgs:
    """One tenant's release.

    Args:
        values: of helm/tenant.
    """

    values: Values


class Tenant(ChartRelease):
    """Release of helm/tenant; it stands beside the namespace that it makes."""

    def __init__(self, name: str, args: TenantArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("Tenant", name, ReleaseArgs("tenant", SYSTEM_NAMESPACE, args.values), opts)


def values(site: Site, tenant: TenantModel) -> Values:
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
