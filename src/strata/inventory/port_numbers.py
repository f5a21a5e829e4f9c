"""TCP ports that more than one layer must agree on; those of hosts are in each role's role.yaml."""

from __future__ import annotations

from typing import Final

from strata.roles import port

REGISTRY: Final = port("registry")
"""Pulls only."""
REGISTRY_PUSH: Final = port("registry", "registry-push")
"""The operator's, for pushing and deleting."""
DATASTORE: Final = port("kine")
POSTGRESQL: Final = port("postgresql")
NFS: Final = port("nfs_server")
HTTP: Final = port("load_balancer", "http")
HTTPS: Final = port("load_balancer", "https")
KUBERNETES_API: Final = port("kube_control_plane", "kubernetes-api")
KUBELET: Final = port("kube_node", "kubelet")
INGRESS: Final = port("kube_node", "ingress")
NODE_EXPORTER: Final = port("node_exporter")
SSH: Final = port("base", "ssh")
