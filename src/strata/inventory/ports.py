"""TCP ports that more than one layer must agree on; those of hosts are in each role's role.yaml."""

from __future__ import annotations

from typing import Final

from strata.catalogue.needs.database import PORT as POSTGRESQL
from strata.roles import port

__all__ = ["DATASTORE", "HTTPS", "INGRESS", "POSTGRESQL", "REGISTRY"]

REGISTRY: Final = port("registry")
DATASTORE: Final = port("kine")
HTTPS: Final = port("load_balancer", "https")

INGRESS: Final = 30443
"""NodePort of the ingress controller (TLS)."""
