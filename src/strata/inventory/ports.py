"""TCP ports that more than one layer must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REGISTRY: Final = 5000
POSTGRESQL: Final = 5432
DATASTORE: Final = 2379
"""kine's, etcd's usual one."""
NFS: Final = 2049
HTTPS: Final = 443
KUBELET: Final = 10250

INGRESS: Final = 30443
"""NodePort of the ingress controller (TLS)."""

HEALTH_PATHS: Final[Mapping[str, str]] = {"ml_hub": "/healthz", "token_issuer": "/healthz"}
"""Path that answers 200 while a service is healthy, by its key in `platform.services`."""
