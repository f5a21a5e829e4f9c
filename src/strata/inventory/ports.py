"""TCP ports that more than one layer must agree on."""

from __future__ import annotations

from typing import Final

from strata.catalogue.needs.database import PORT as POSTGRESQL

__all__ = ["DATASTORE", "HTTPS", "INGRESS", "KUBELET", "NFS", "POSTGRESQL", "REGISTRY"]

REGISTRY: Final = 5000
"""Pulls only."""
REGISTRY_PUSH: Final = 5001
"""The operator's, for pushing and deleting."""
DATASTORE: Final = 2379
"""kine's, etcd's usual one."""
NFS: Final = 2049
HTTP: Final = 80
HTTPS: Final = 443
SSH: Final = 22
KUBERNETES_API: Final = 6443
KUBELET: Final = 10250

INGRESS: Final = 30443
"""NodePort of the ingress controller (TLS)."""
