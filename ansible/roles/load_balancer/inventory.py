"""Variables of the role load_balancer."""

from __future__ import annotations

from strata.inventory.ports import INGRESS, KUBERNETES_API
from strata.models import Site
from strata.site.hosts import balanced_api, hosts_with, ingress_nodes
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The nodes that run the ingress controller, the API servers where there are several, and their ports."""
    servers = hosts_with("kube_control_plane", site, outputs) if balanced_api(site) else ()
    return {
        "load_balancer_backends": [host.address for host in ingress_nodes(site, outputs)],
        "load_balancer_backend_port": INGRESS,
        "load_balancer_api_servers": {host.name: host.address for host in servers},
        "load_balancer_api_port": KUBERNETES_API,
    }
