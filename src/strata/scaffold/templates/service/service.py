"""The declaration of example-service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strata.catalogue.needs import Audience, Database, Hostname, Metrics, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata_services.example_service.settings import ExampleService

DATABASE = Database("example_service")
AUDIENCE = Audience("example-service", path="/v1/notes")
METRICS = Metrics(9464)
PRIORITY = Priority("platform")


def _hostname(settings: ExampleService) -> Hostname:
    return Hostname(settings.hostname, "/healthz")


def needs(settings: ExampleService) -> tuple[Need[Any], ...]:
    """What the platform provides; the words are in strata.catalogue.needs: Secret, Client, Accelerators, …"""
    return (DATABASE, AUDIENCE, METRICS, PRIORITY, _hostname(settings))


def values(context: ServiceContext[ExampleService]) -> Values:
    """Values of helm/example-service.

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


SERVICE = Service(folder=Path(__file__).parent, needs=needs, values=values)
