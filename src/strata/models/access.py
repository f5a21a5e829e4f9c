"""Which addresses outside the site may reach it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import IPNetwork

Networks = tuple[IPNetwork, ...]


class Access(Model):
    """Networks outside the site that may reach it; all others are blocked."""

    ssh: Annotated[
        Networks, Field(description="SSH (22) and ping on every instance; the deployment host needs it.")
    ] = ()
    kubernetes_api: Annotated[
        Networks, Field(description="Kubernetes API (6443); the deployment host and users of kubectl need it.")
    ] = ()
    https: Annotated[
        Networks, Field(description="HTTPS (443) of the services, and HTTP (80), which redirects to it.")
    ] = ()
    registry: Annotated[
        Networks,
        Field(
            description="Image registry, pulls (5000) and pushes (5001); the deployment host needs it, and the robots "
            "of hosts.registry."
        ),
    ] = ()
