"""Networks that overlap or are too small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding
from strata.models.key_path import INSTANCES, MACHINES, KeyPath, dotted
from strata.models.site import Site
from strata.roles import KUBERNETES_ROLES

CONTROL_ADDRESSES = 16
"""The lab's controller takes address 10 of the control network."""
NODE_PREFIX = 24
"""Each Kubernetes node takes such a network of the pod network."""
SERVICE_PREFIX = 12
"""kube-apiserver refuses larger service networks."""
LIBRARY_ADDRESSES = 1
"""neutron's DHCP port takes an address of each pool."""

_Network = IPv4Network | IPv6Network


def check(site: Site) -> Iterator[Finding]:
    """Overlaps of all networks, and their sizes."""
    networks = list(_networks(site))
    yield from _overlaps(networks)
    yield from _machines(site, networks)
    yield from _names(site)
    yield from _sizes(site)


def _networks(site: Site) -> Iterator[tuple[_Network, KeyPath]]:
    if site.cloud is not None:
        if site.cloud.control_network is not None:
            yield site.cloud.control_network, ("cloud", "control_network")
        if site.cloud.kolla is not None:
            yield site.cloud.kolla.network, ("cloud", "kolla", "network")
        for index, network in enumerate(site.cloud.networks):
            yield network.cidr, ("cloud", "networks", index, "cidr")
            if network.ipv6 is not None:
                yield network.ipv6.cidr, ("cloud", "networks", index, "ipv6", "cidr")
    if site.cluster is not None:
        yield site.cluster.pod_network, ("cluster", "pod_network")
        yield site.cluster.service_network, ("cluster", "service_network")


def _overlaps(networks: list[tuple[_Network, KeyPath]]) -> Iterator[Finding]:
    """In order of addresses, a network that overlaps begins inside the one that reaches furthest so far."""
    for version in (4, 6):
        widest: tuple[_Network, KeyPath] | None = None
        ordered = sorted(
            (n for n in networks if n[0].version == version), key=lambda n: (int(n[0].network_address), n[0].prefixlen)
        )
        for network, path in ordered:
            if widest is not None and int(network.network_address) <= int(widest[0].broadcast_address):
                why = f"overlaps with {dotted(widest[1])} ({widest[0]})"
                yield Finding(path, why, "networks of a site must not share addresses; choose another one")
            else:
                widest = (network, path)


def _machines(site: Site, networks: list[tuple[_Network, KeyPath]]) -> Iterator[Finding]:
    if site.hosts.machines and site.hosts.firewall and not site.access.ssh:
        why = "is empty, and the firewall of hosts.machines would refuse the deployment host's logins"
        yield Finding(("access", "ssh"), why, "its network, as in 192.0.2.0/24; or hosts.firewall: false", (MACHINES,))
    virtual = [(n, p) for n, p in networks if p[0] == "cluster"]
    for index, machine in enumerate(site.hosts.machines):
        for network, path in virtual:
            if machine.address in network:
                why = f"lies in {dotted(path)} ({network}), whose addresses exist inside the cluster only"
                yield Finding(
                    ("hosts", "machines", index, "address"), why, f"another address, or another {dotted(path)}"
                )


def _names(site: Site) -> Iterator[Finding]:
    """A network's second subnet is called after it."""
    named = site.cloud.networks if site.cloud is not None else ()
    second = {f"{network.name}-ipv6": network.name for network in named if network.ipv6 is not None}
    for index, network in enumerate(named):
        if network.name in second:
            why = f"is the name of the IPv6 subnet of {second[network.name]}"
            yield Finding(("cloud", "networks", index, "name"), why, "another name")


def _sizes(site: Site) -> Iterator[Finding]:
    if site.cloud is not None:
        control = site.cloud.control_network
        if control is not None and control.num_addresses < CONTROL_ADDRESSES:
            yield Finding(("cloud", "control_network"), "has too few addresses", "a prefix of /28 or shorter")
        counts = Counter(instance.network for instance in site.cloud.instances)
        for index, network in enumerate(site.cloud.networks):
            free = network.allocation_pool.size - LIBRARY_ADDRESSES
            if counts[network.name] > free:
                why = f"has {free} addresses for instances, {counts[network.name]} instances are in it"
                key = "allocation_pool" if "allocation_pool" in network.model_fields_set else "cidr"
                fix = f"a larger pool, {_reach(network.allocation_pool.start, counts[network.name])} at least"
                yield Finding(("cloud", "networks", index, key), why, fix)
    if site.cluster is not None:
        pods, services = site.cluster.pod_network, site.cluster.service_network
        nodes = sum(bool(set(KUBERNETES_ROLES) & set(host.roles)) for host in declared_hosts(site))
        room = 2 ** (NODE_PREFIX - pods.prefixlen) if pods.prefixlen <= NODE_PREFIX else 0
        if nodes > room:
            prefix = NODE_PREFIX - (nodes - 1).bit_length()
            why = f"has room for {room} nodes (a /{NODE_PREFIX} each), the cluster has {nodes}"
            yield Finding(
                ("cluster", "pod_network"), why, f"a prefix of /{prefix} or shorter", (INSTANCES,) if not nodes else ()
            )
        if services.prefixlen < SERVICE_PREFIX:
            fix = f"a prefix of /{SERVICE_PREFIX} or longer"
            yield Finding(("cluster", "service_network"), "is larger than Kubernetes accepts", fix)


def _reach(start: IPv4Address | IPv6Address, count: int) -> str:
    return f"{start} and the {count} addresses after it"
