"""Networks that a cloud already has, against the site file."""

from __future__ import annotations

from collections.abc import Iterator

from strata.cloud.arguments import further_networks
from strata.engine.existing_cloud.objects import FoundNetwork
from strata.models.cloud import Cloud, Network
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion


def paired_networks(site: Site, cloud: Cloud) -> dict[str, list[str]]:
    """Existing networks to their instances whose ports need further addresses, of pods and virtual ones."""
    paired: dict[str, list[str]] = {network.name: [] for network in cloud.networks if network.existing}
    for instance in cloud.instances:
        if instance.network in paired and further_networks(site, instance.roles):
            paired[instance.network].append(instance.name)
    return {name: instances for name, instances in paired.items() if instances}


def check_network(network: Network, existing: FoundNetwork, path: KeyPath) -> Iterator[Finding]:
    """An existing network against the site file.

    Args:
        network: of the site file.
        existing: the only one of its name.
        path: of its entry.
    """
    subnets: dict[KeyPath, str] = {(*path, "cidr"): str(network.cidr)}
    if network.ipv6 is not None:
        subnets[*path, "ipv6", "cidr"] = str(network.ipv6.cidr)
    for key, cidr in subnets.items():
        if cidr not in existing.cidrs:
            yield Finding(key, "the network has no such subnet", suggestion(cidr, existing.cidrs, "its subnets"))
    if not existing.port_security:
        why = "its port security is disabled, and neutron gives its ports no security groups"
        fix = f"have its owner run `openstack network set --enable-port-security {existing.id}`, or another network"
        yield Finding((*path, "name"), why, fix)
    if not existing.address_pairs:
        why = (
            "it belongs to another project, and neutron does not permit allowed_address_pairs on it, by which nodes "
            "send from the addresses of their pods, and load balancers from the virtual one"
        )
        fix = (
            "remove existing: true and set external_network, so that the project has its own network; or have the "
            "cloud's administrator permit create_port:allowed_address_pairs"
        )
        yield Finding((*path, "existing"), why, fix)
