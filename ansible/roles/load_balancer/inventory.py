"""Variables of the role load_balancer."""

from __future__ import annotations

from strata.inventory.ports import INGRESS
from strata.models import Site
from strata.site.hosts import ingress_nodes
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The nodes that run the ingress controller, and its port."""
    return {
        "load_balancer_backends": [host.address for host in ingress_nodes(site, outputs)],
        "load_balancer_backend_port": INGRESS,
    }
