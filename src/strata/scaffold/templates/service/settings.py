"""What site.yaml sets of example-service."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class ExampleService(Model):
    """Notes that the members of a tenant share, at https://<hostname>.<domain>/v1/notes."""

    hostname: Annotated[DnsLabel, Field(description="Name below the site's domain.")] = "example-service"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1


SECTION = ExampleService
