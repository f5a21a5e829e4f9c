"""Variables of the role load_balancer."""

from __future__ import annotations

from strata.inventory.port_numbers import INGRESS, KUBERNETES_API, POSTGRESQL
from strata.models.site import Site
from strata.roles import port
from strata.site.host_list import balanced_api, hosts_with, ingress_nodes, replicated_postgresql
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Nodes that run the ingress controller, API and PostgreSQL servers where there are several, and their ports."""
    servers = hosts_with("kube_control_plane", site, outputs) if balanced_api(site) else ()
    databases = hosts_with("postgresql", site, outputs) if replicated_postgresql(site) else ()
    return {
        "load_balancer_backends": [host.address for host in ingress_nodes(site, outputs)],
        "load_balancer_backend_port": INGRESS,
        "load_balancer_api_servers": {host.name: host.address for host in servers},
        "load_balancer_api_port": KUBERNETES_API,
        "load_balancer_postgresql_servers": {host.name: host.address for host in databases},
        "load_balancer_postgresql_port": POSTGRESQL,
        "load_balancer_patroni_port": port("patroni"),
    }
