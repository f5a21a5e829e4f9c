"""Variables of the role pod_network."""

from __future__ import annotations

from strata.inventory.clients import POD_SERVICES
from strata.inventory.kubernetes import cluster_of
from strata.inventory.topology import host_networks
from strata.models import Site
from strata.site.hosts import hosts, running_roles
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The network of all pods, and what enforces the policies between them."""
    return {
        "pod_network_cidr": str(cluster_of(site).pod_network),
        "pod_network_hosts": host_networks(site),
        "pod_network_host_services": [
            {"address": host.address, "port": port}
            for host in hosts(site, outputs)
            for role in running_roles(site, host.roles)
            for port in POD_SERVICES.get(role, ())
        ],
        "pod_network_policies_binary": str(bin_directory() / "network-policies"),
    }
