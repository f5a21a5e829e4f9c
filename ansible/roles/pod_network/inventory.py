"""Variables of the role pod_network."""

from __future__ import annotations

from strata.inventory.clients import pod_services
from strata.inventory.kubernetes import cluster_of
from strata.inventory.topology import host_networks
from strata.models.site import Site
from strata.site.host_list import LOAD_BALANCER, hosts, running_roles
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The network of all pods, and what enforces the policies between them."""
    services = pod_services(site)
    addresses = [(host.address, running_roles(site, host.roles)) for host in hosts(site, outputs)]
    if site.hosts.load_balancer is not None:
        addresses.append((str(site.hosts.load_balancer.virtual_address), (LOAD_BALANCER,)))
    return {
        "pod_network_cidr": str(cluster_of(site).pod_network),
        "pod_network_hosts": host_networks(site),
        "pod_network_host_services": [
            {"address": address, "port": port} | ({} if namespaces is None else {"namespaces": list(namespaces)})
            for address, roles in addresses
            for role in roles
            for port, namespaces in services.get(role, {}).items()
        ],
        "pod_network_policies_binary": str(bin_directory() / "network-policies"),
    }
