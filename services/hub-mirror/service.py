"""The declaration of hub-mirror."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from strata.catalogue.needs import Audience, Database, Hostname, Metrics, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class HubMirror(Model):
    """Notes that the members of a tenant share, at https://<hostname>.<domain>/v1/notes."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Name below the site's domain.")] = "hub-mirror"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1


DATABASE = Database("hub_mirror")
AUDIENCE = Audience("hub-mirror", path="/v1/notes")
METRICS = Metrics(9464)
PRIORITY = Priority("platform")


def _hostname(settings: HubMirror) -> Hostname:
    return Hostname(settings.hostname, "/healthz")


def needs(settings: HubMirror) -> tuple[Need[Any], ...]:
    """What the platform provides; the words are in strata.catalogue.needs: Secret, Client, Accelerators, …"""
    return (DATABASE, AUDIENCE, METRICS, PRIORITY, _hostname(settings))


def values(context: ServiceContext[HubMirror]) -> Values:
    """Values of helm/hub-mirror.

    Raises:
        UserError: no PostgreSQL server is deployed, or the external issuer's CA cannot be read.
    """
    database = context.provide(DATABASE)
    issuer = context.provide(AUDIENCE)
    metrics = context.provide(METRICS)
    return {
        "image": context.image,
        "replicas": context.settings.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "issuer": {
            "url": issuer.url,
            "audience": issuer.audience,
            "jwksUrl": issuer.jwks_url or "",
            "ca": issuer.ca or "",
        },
        "ingress": context.provide(_hostname(context.settings)),
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": list(issuer.ports),
        },
    }


SERVICE = Service(folder=Path(__file__).parent, settings=HubMirror, needs=needs, values=values)
