"""PostgreSQL on several hosts."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site

SERVERS = (1, 3, 5)
"""Most of them elect the primary, so an even number survives no more losses than one less."""
SOURCES: tuple[KeyPath, ...] = (INSTANCES, MACHINES)


def check(site: Site) -> Iterator[Finding]:
    """Several servers: a number that survives the loss of one, one address in front."""
    # a duplicate name is reported as such
    servers = list({host.name: host for host in declared_hosts(site) if "postgresql" in host.roles}.values())
    if len(servers) < 2:
        return
    path: KeyPath = (*servers[-1].path, "roles")
    if len(servers) not in SERVERS:
        names = ", ".join(host.name for host in servers)
        why = f"the role postgresql is on {len(servers)} hosts: {names}; of an even number, half cannot elect a primary"
        fix = f"give a{' third' if len(servers) == 2 else 'nother'} host the role postgresql, or remove it here"
        yield Finding(path, why, fix if len(servers) < 5 else "1, 3 or 5 hosts with the role postgresql", SOURCES)
    balancers = [host for host in declared_hosts(site) if "load_balancer" in host.roles]
    if not balancers:
        why = "several PostgreSQL servers need a host with the role load_balancer, at which clients reach the primary"
        first: KeyPath = (*servers[0].path, "roles")
        yield Finding(first, why, "give another host the role load_balancer", SOURCES)
    for host in balancers:
        if "postgresql" in host.roles:
            why = "both load_balancer and postgresql listen at port 5432 where there are several PostgreSQL servers"
            yield Finding((*host.path, "roles"), why, "give another host the role load_balancer")
