"""Accounting: what the site's resources were allocated to, and how they were used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field

from strata.catalogue.needs import BatchQueue, Database, MetricsQuery, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.base import Model

DATABASE = Database("accounting")
PRIORITY = Priority("platform")
METRICS = MetricsQuery()
BATCH = BatchQueue(("app.kubernetes.io/name=accounting",), monitor=True)
HTTPS, HTTP = 443, 80
Weight = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class ServiceUnits(Model):
    """What one hour of a resource counts, in service units; whole numbers, whose ratios matter."""

    layer: ClassVar[str] = "platform"
    core: Annotated[Weight, Field(description="Of one core.")] = 1
    card: Annotated[Weight, Field(description="Of one card.")] = 2
    memory_gib: Annotated[Weight, Field(description="Of one GiB of memory.")] = 0


class Accounting(Model):
    """Records of what the site's resources are allocated to and how they are used, for `strata accounting`."""

    layer: ClassVar[str] = "platform"
    service_units: Annotated[ServiceUnits, Field(description="What an hour of each resource counts.")] = ServiceUnits()
    prometheus: Annotated[
        str | None,
        Field(
            pattern=r"^https?://[a-z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?$",
            description="URL of another Prometheus with the usage of pods, without /api. "
            "Default: the site's; a site without one records no usage.",
        ),
    ] = None


def needs(settings: Accounting) -> tuple[Need[Any], ...]:
    """Its database, the priority of its pod, the batch system, and metrics unless the site file names others."""
    return (DATABASE, PRIORITY, BATCH, *(() if settings.prometheus else (METRICS,)))


def values(context: ServiceContext[Accounting]) -> Values:
    """Values of helm/accounting.

    Raises:
        UserError: no PostgreSQL server is deployed.
    """
    from strata.platform.accelerators import cluster_resources  # late: the site model is built from the services

    database = context.provide(DATABASE)
    given: Values = {
        "image": context.image,
        "priorityClassName": context.provide(PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "tenants": [tenant.name for tenant in context.site.platform.tenants],
        "cardResources": cluster_resources(context.site),
    }
    if url := context.settings.prometheus:
        parts = urlsplit(url)
        port = parts.port or (HTTPS if parts.scheme == "https" else HTTP)
        given["prometheus"] = {"url": url.rstrip("/"), "port": port}
    elif server := context.provide(METRICS):
        given["prometheus"] = {"url": server.url, "port": server.port, "pods": dict(server.pods)}
    if batch := context.provide(BATCH):
        token = batch.monitor_token
        given["htcondor"] = {
            "collector": batch.server.collector,
            "accessPoint": batch.server.access_point,
            "domain": batch.server.domain,
            "existingSecret": token.value if token else {},
            "port": batch.server.port,
            "pods": dict(batch.server.pods),
        }
    return given


SERVICE = Service(folder=Path(__file__).parent, settings=Accounting, needs=needs, values=values)
