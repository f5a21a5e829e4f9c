"""The virtual address of the load balancers."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.cloud import Cloud
from strata.models.compute import Instance
from strata.models.declared_hosts import DeclaredHost, declared_hosts
from strata.models.finding import Finding
from strata.models.hosts import LoadBalancer
from strata.models.key_path import INSTANCES, MACHINES, KeyPath, dotted
from strata.models.site import Site
from strata.models.types import IPAddress

ROLE = "load_balancer"
SECTION: KeyPath = ("hosts", "load_balancer")
ADDRESS: KeyPath = (*SECTION, "virtual_address")
FLOATING_IP: KeyPath = (*SECTION, "floating_ip")


def check(site: Site) -> Iterator[Finding]:
    """Several load balancers have one; it belongs to their network and to no host. One alone may have it too."""
    section = site.hosts.load_balancer
    # a duplicate name is reported as such
    balancers = list({host.name: host for host in declared_hosts(site) if ROLE in host.roles}.values())
    if section is None:
        for host in balancers[1:]:
            why = f"{ROLE} is already on {balancers[0].name}; several load balancers need a virtual address"
            fix = f"below hosts: load_balancer: {{virtual_address: …}}, or remove {ROLE} here"
            yield Finding((*host.path, "roles"), why, fix, (SECTION,))
        return
    if not balancers:
        why = f"needs a host with the role {ROLE}, and there is none"
        yield Finding(SECTION, why, f"give a host the role {ROLE}", (INSTANCES, MACHINES))
    if section.virtual_address.version != 4:
        yield Finding(ADDRESS, "is an IPv6 address, and the load balancers listen on IPv4", "an IPv4 address")
        return
    for path, address in _taken(site):
        if address == section.virtual_address:
            yield Finding(ADDRESS, f"is the same as {dotted(path)}", "an address that no host has")
    if site.cluster is not None:
        for key in ("pod_network", "service_network"):
            network = getattr(site.cluster, key)
            if section.virtual_address in network:
                yield Finding(ADDRESS, f"is in cluster.{key} {network}", "an address of the load balancers' network")
    yield from _placement(site, section, balancers)


def _taken(site: Site) -> Iterator[tuple[KeyPath, IPAddress]]:
    """Addresses of the site file that belong to others."""
    for index, machine in enumerate(site.hosts.machines):
        yield (*MACHINES, index, "address"), machine.address
    if site.cloud is not None:
        for index, network in enumerate(site.cloud.networks):
            yield ("cloud", "networks", index, "gateway"), network.gateway
        if site.cloud.kolla is not None:
            kolla = site.cloud.kolla
            yield ("cloud", "kolla", "internal", "address"), kolla.internal.address
            yield ("cloud", "kolla", "external", "address"), kolla.external.address
    section = site.cluster.kubespray if site.cluster is not None else None
    if section is not None and section.api_address is not None:
        yield ("cluster", "kubespray", "api_address"), section.api_address


def _placement(site: Site, section: LoadBalancer, balancers: list[DeclaredHost]) -> Iterator[Finding]:
    """All load balancers are in one network, in which the address can move."""
    cloud = site.cloud
    names = {host.name for host in balancers}
    instances = [(i, instance) for i, instance in enumerate(cloud.instances if cloud else ()) if instance.name in names]
    if cloud is None or not instances:
        if section.floating_ip:
            yield Finding(
                FLOATING_IP, "is for instances of a cloud, and the load balancers are none", "remove the line"
            )
        return
    if len(instances) < len(names):
        machine = next(host for host in balancers if host.path[: len(MACHINES)] == MACHINES)
        why = f"shares {dotted(ADDRESS)} with {instances[0][1].name}, which is an instance in a network of its own"
        yield Finding((*machine.path, "roles"), why, f"give {ROLE} to instances only, or to machines only", (SECTION,))
    first = instances[0][1]
    for index, instance in instances[1:]:
        if instance.network != first.network:
            why = f"is not that of {first.name}, {first.network}, and the virtual address moves within one network"
            yield Finding((*INSTANCES, index, "network"), why, f"network: {first.network}", (SECTION,))
    yield from _network(cloud, section, first)
    yield from _floating_ip(cloud, section, [instance for _, instance in instances])


def _network(cloud: Cloud, section: LoadBalancer, balancer: Instance) -> Iterator[Finding]:
    network = next((n for n in cloud.networks if n.name == balancer.network), None)
    if network is None:  # has a finding of its own
        return
    address = section.virtual_address
    pool = network.allocation_pool
    free = f"an address of {network.cidr} outside of its allocation pool {pool.start}–{pool.end}"
    if address not in network.cidr:
        yield Finding(ADDRESS, f"is not in {network.cidr}, the network {network.name} of {balancer.name}", free)
    elif address in (network.cidr.network_address, network.cidr.broadcast_address):
        yield Finding(ADDRESS, f"is the network's own or the broadcast address of {network.cidr}", free)
    # the pool of an existing network is not in the site file
    elif not network.existing and int(pool.start) <= int(address) <= int(pool.end):
        yield Finding(
            ADDRESS, f"is in the allocation pool {pool.start}–{pool.end}, which instances get theirs from", free
        )


def _floating_ip(cloud: Cloud, section: LoadBalancer, balancers: list[Instance]) -> Iterator[Finding]:
    outside = next((instance.name for instance in balancers if instance.floating_ip), None)
    if section.floating_ip and cloud.external_network is None:
        why = "is true, and cloud.external_network, which the address would come from, is missing"
        yield Finding(FLOATING_IP, why, "name the network (openstack network list --external)", (("cloud",),))
    elif outside is not None and not section.floating_ip:
        why = f"has no floating IP, and {outside} has one: clients outside would not reach the virtual address"
        yield Finding(SECTION, why, "floating_ip: true", (INSTANCES,))
