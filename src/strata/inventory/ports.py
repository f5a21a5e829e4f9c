"""TCP ports that more than one layer must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REGISTRY: Final = 5000
"""Pulls only."""
REGISTRY_PUSH: Final = 5001
"""The operator's, for pushing and deleting."""
POSTGRESQL: Final = 5432
DATASTORE: Final = 2379
"""kine's, etcd's usual one."""
NFS: Final = 2049
HTTP: Final = 80
HTTPS: Final = 443
SSH: Final = 22
KUBERNETES_API: Final = 6443
KUBELET: Final = 10250
NODE_PORT_RANGE: Final = (30000, 32767)
"""kube-apiserver's default for NodePorts."""

NODE_PORTS: Final[Mapping[str, int]] = {"ml_hub": 30080, "token_issuer": 30081}
"""NodePort of each service of the platform, by its key in `platform.services`."""

HEALTH_PATHS: Final[Mapping[str, str]] = {"ml_hub": "/healthz", "token_issuer": "/healthz"}
"""Where the load balancer asks a service how it is."""
