"""What site.yaml sets of Keycloak."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import DatabaseName, DnsLabel


class Keycloak(Model):
    """Keycloak, the OpenID Connect issuer for sites without an identity provider: users, groups, clients."""

    hostname: Annotated[DnsLabel, Field(description="Responds at https://<hostname>.<domain>/realms/<realm>.")] = (
        "login"
    )
    realm: Annotated[
        DatabaseName,
        Field(
            description="Name of the realm, part of the `iss` claim; a changed name creates a new realm without users."
        ),
    ] = "strata"


SECTION = Keycloak
