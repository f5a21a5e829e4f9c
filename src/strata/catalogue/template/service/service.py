"""The declaration of example-service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from strata.catalogue.needs import Hostname, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class ExampleService(Model):
    """Greets whoever opens https://<hostname>.<domain>."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Name below the site's domain.")] = "example-service"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1


PRIORITY = Priority("platform")


def _hostname(settings: ExampleService) -> Hostname:
    return Hostname(settings.hostname, "/healthz")


def needs(settings: ExampleService) -> tuple[Need[Any], ...]:
    """What the platform provides; the words are in strata.catalogue.needs: Database, Secret, Client, Accelerators, …"""
    return (_hostname(settings), PRIORITY)


def values(context: ServiceContext[ExampleService]) -> Values:
    """Values of helm/example-service."""
    return {
        "image": context.image,
        "replicas": context.settings.replicas,
        "ingress": context.provide(_hostname(context.settings)),
        "priorityClassName": context.provide(PRIORITY),
    }


SERVICE = Service(folder=Path(__file__).parent, settings=ExampleService, needs=needs, values=values)
