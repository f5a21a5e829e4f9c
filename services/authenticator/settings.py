"""What site.yaml sets of the authenticator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class Authenticator(Model):
    """Login, sites and tenants for Tapis' clients at https://<api_hostname>.<domain>/v3; personal access tokens."""

    hostname: Annotated[
        DnsLabel, Field(description="Users manage their personal access tokens at https://<hostname>.<domain>.")
    ] = "tokens"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1
    personal_access_token_days: Annotated[
        int,
        Unit("days"),
        Field(strict=True, ge=1, le=365, description="Longest lifetime of a personal access token."),
    ] = 365


SECTION = Authenticator
