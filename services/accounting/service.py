"""Accounting: what the site's resources were allocated to, and how they were used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field

from strata.catalogue.needs import Audience, BatchQueue, Database, Hostname, MetricsQuery, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.base import Model
from strata.models.types import DnsLabel

DATABASE = Database("accounting")
PRIORITY = Priority("platform")
METRICS = MetricsQuery()
BATCH = BatchQueue(("app.kubernetes.io/name=accounting",), monitor=True)
AUDIENCE = Audience("accounting", path="/measurement")
HTTPS, HTTP = 443, 80
Weight = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class ServiceUnits(Model):
    """What one hour of a resource counts, in service units; whole numbers, whose ratios matter."""

    layer: ClassVar[str] = "platform"
    core: Annotated[Weight, Field(description="Of one core.")] = 1
    card: Annotated[Weight, Field(description="Of one card.")] = 2
    memory_gib: Annotated[Weight, Field(description="Of one GiB of memory.")] = 0


class Measurements(Model):
    """Measurements that users send with the tokens of the site's issuer, by tenant."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Answers at https://<hostname>.<domain>/measurement.")] = (
        "accounting"
    )


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
    measurements: Annotated[
        Measurements | None,
        Field(description="Take users' measurements over REST; needs an issuer of tokens. Default: none are taken."),
    ] = None


def needs(settings: Accounting) -> tuple[Need[Any], ...]:
    """Its database, the priority of its pods, the batch system, metrics unless the site file names others, and tokens
    and a name where users send measurements."""
    metrics = () if settings.prometheus else (METRICS,)
    users = (AUDIENCE, Hostname(settings.measurements.hostname, "/healthz")) if settings.measurements else ()
    return (DATABASE, PRIORITY, BATCH, *metrics, *users)


def values(context: ServiceContext[Accounting]) -> Values:
    """Values of helm/accounting.

    Raises:
        UserError: no PostgreSQL server is deployed, or the issuer's CA cannot be read.
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
    if measurements := context.settings.measurements:
        issuer = context.provide(AUDIENCE)
        given["ingress"] = context.provide(Hostname(measurements.hostname, "/healthz"))
        found = {"url": issuer.url, "audience": issuer.audience, "jwksUrl": issuer.jwks_url, "ca": issuer.ca}
        given["issuer"] = {key: value for key, value in found.items() if value is not None}
        given["networkPolicy"] = {"enabled": True, "issuerPods": dict(issuer.pods), "issuerPorts": list(issuer.ports)}
    return given


SERVICE = Service(folder=Path(__file__).parent, settings=Accounting, needs=needs, values=values)
