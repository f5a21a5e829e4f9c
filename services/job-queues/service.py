"""Job queues: Kubernetes jobs of tenants wait in Kueue until their share has room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strata.catalogue.needs import Need, TenantNamespaces, UpstreamChart
from strata.catalogue.service import Service
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.job_queues.settings import JobQueues
from strata_services.job_queues.values import controller_values, tenant_values, values

TENANTS: KeyPath = ("platform", "tenants")
CONTROLLER = UpstreamChart("kueue", controller_values)
QUEUES = TenantNamespaces("job-queue-tenant", tenant_values)


def needs(_: JobQueues) -> tuple[Need[Any], ...]:
    """Kueue, and a queue in each tenant's namespace."""
    return (CONTROLLER, QUEUES)


def check(_: JobQueues, site: Site, __: Path) -> Iterator[Finding]:
    """Queues are of tenants."""
    if not site.platform.tenants:
        key: KeyPath = ("platform", "services", "job_queues")
        yield Finding(key, "needs a tenant, whose jobs it queues", "add one to platform.tenants", (TENANTS,))


SERVICE = Service(folder=Path(__file__).parent, needs=needs, check=check, values=values)
