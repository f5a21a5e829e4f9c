"""TCP ports that more than one layer must agree on; those of hosts are in each role's role.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.models.roles import port

REGISTRY: Final = port("registry")
POSTGRESQL: Final = port("postgresql")
DATASTORE: Final = port("kine")
HTTPS: Final = port("load_balancer", "https")

NODE_PORTS: Final[Mapping[str, int]] = {"ml_hub": 30080, "token_issuer": 30081}
"""NodePort of each service of the platform, by its key in `platform.services`."""

HEALTH_PATHS: Final[Mapping[str, str]] = {"ml_hub": "/healthz", "token_issuer": "/healthz"}
"""Where the load balancer asks a service how it is."""
