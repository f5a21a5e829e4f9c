"""Accounting: what the site's resources were allocated to, and how they were used."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from strata.catalogue.needs import Audience, BatchQueue, Database, Hostname, Metrics, MetricsQuery, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.extended_resources import cluster_resources
from strata_services.accounting.settings import Accounting, Measurements

DATABASE = Database("accounting")
PRIORITY = Priority("platform")
METRICS = MetricsQuery()
OWN_METRICS = Metrics(9101)
BATCH = BatchQueue(("app.kubernetes.io/name=accounting",), monitor=True)
AUDIENCE = Audience("accounting", path="/measurement")
HTTPS, HTTP = 443, 80


def _hostname(measurements: Measurements) -> Hostname:
    """Where users send measurements."""
    return Hostname(
        measurements.hostname,
        "/healthz",
        title="Measurements",
        summary="Rows that your programs send and read, with a token of your login.",
        command='curl --header "Authorization: Bearer $TOKEN" {url}/measurement',
    )


def needs(settings: Accounting) -> tuple[Need[Any], ...]:
    """Its database, the priority of its pods, the batch system, metrics of its own, those of pods unless the site file
    names others, and tokens and a name where users send measurements."""
    metrics = () if settings.prometheus else (METRICS,)
    users = (AUDIENCE, _hostname(settings.measurements)) if settings.measurements else ()
    return (DATABASE, PRIORITY, BATCH, OWN_METRICS, *metrics, *users)


def values(context: ServiceContext[Accounting]) -> Values:
    """Values of helm/accounting.

    Raises:
        UserError: no PostgreSQL server is deployed, or the issuer's CA cannot be read.
    """
    database, own = context.provide(DATABASE), context.provide(OWN_METRICS)
    given: Values = {
        "image": context.image,
        "priorityClassName": context.provide(PRIORITY),
        "podAnnotations": dict(own.annotations),
        "networkPolicy": {"enabled": True, "metricsClients": list(own.clients)},
        "database": {**database.values, "existingSecret": database.password.value},
        "tenants": [tenant.name for tenant in context.site.platform.tenants],
        "cardResources": cluster_resources(context.site),
        "retention": {key: months or 0 for key, months in context.settings.retention.model_dump().items()},
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
            "schedds": [schedd.name for schedd in batch.server.schedds.values()],
            "domain": batch.server.domain,
            "existingSecret": token.value if token else {},
            "port": batch.server.port,
            "pods": dict(batch.server.pods),
        }
    if measurements := context.settings.measurements:
        issuer = context.provide(AUDIENCE)
        given["ingress"] = context.provide(_hostname(measurements))
        settings = {"url": issuer.url, "audience": issuer.audience, "jwksUrl": issuer.jwks_url, "ca": issuer.ca}
        given["issuer"] = {key: value for key, value in settings.items() if value is not None}
        given["networkPolicy"] |= {"issuerPods": dict(issuer.pods), "issuerPorts": list(issuer.ports)}
    return given


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    values=values,
    pod_annotations=("podAnnotations", "measurements.annotations"),
)
