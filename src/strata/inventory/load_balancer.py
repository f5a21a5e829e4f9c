"""Variables of the role load_balancer."""

from __future__ import annotations

from strata.inventory.services import published_services
from strata.inventory.topology import certificate
from strata.models import Site
from strata.site.hosts import hosts_with
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Each service by its name, on the NodePort of every node."""
    services = published_services(site)
    own = [f"{host.name}.{site.domain}" for host in hosts_with("load_balancer", site, outputs)]
    return {
        "load_balancer_domain": site.domain,
        "load_balancer_certificate": certificate(
            "load_balancer", [*(f"{s.hostname}.{site.domain}" for s in services), *own], []
        ),
        "load_balancer_backends": [host.address for host in hosts_with("kube_node", site, outputs)],
        "load_balancer_services": [
            {"hostname": s.hostname, "port": s.node_port, "scheme": "http", "health_path": s.health_path}
            for s in services
        ],
    }
