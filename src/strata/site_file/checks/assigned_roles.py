"""Roles: which need which, and what they need declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.catalogue.backup_items import backup_items
from strata.catalogue.site_needs import databases
from strata.models.cluster import Cluster
from strata.models.finding import Finding
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.roles import Role, Section, roles
from strata.site_file.checks.hosts import Host, hosts

CONTROL_PLANES = (1, 3, 5)
POSTGRESQL_SERVERS = (1, 3, 5)
"""Most of them elect the primary, so an even number survives no more losses than one less."""
SOURCES: tuple[KeyPath, ...] = (INSTANCES, MACHINES)


def check(site: Site) -> Iterator[Finding]:
    """Roles against each other and against the sections that they carry out."""
    by_role: dict[str, list[Host]] = {}
    for host in hosts(site):
        for role in dict.fromkeys(host.roles):  # a duplicate has a finding of its own
            by_role.setdefault(role, []).append(host)
    for name, facts in roles().items():
        if name in by_role:
            yield from _needs(name, facts, by_role)
        yield from _section(site, name, facts.needs.section, by_role)
    yield from _postgresql(site, by_role)
    yield from _cluster(site, by_role)


def _needs(name: str, role: Role, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """What a role on some host requires of its number and of other roles."""
    having = by_role[name]
    if role.hosts == "one":
        for host in having[1:]:
            why = f"{name} is already on {having[0].name}; one host of a site has this role"
            yield Finding((*host.path, "roles"), why, f"remove {name} here")
    for needed in role.needs.on_site:
        if needed not in by_role:
            why = f"{name} needs a host with the role {needed}, and there is none"
            yield Finding((*having[0].path, "roles"), why, f"give a host the role {needed}", SOURCES)
    for needed in role.needs.on_host:
        for host in having:
            if needed not in host.roles:
                why = f"{name} needs the role {needed} on the same host"
                yield Finding((*host.path, "roles"), why, f"add {needed}")


def _section(site: Site, name: str, section: Section | None, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """A section of site.yaml has its role, the role its section."""
    if section is None:
        return
    there = getattr(site.hosts, section.key) is not None
    archive = section.key == "backup" and site.hosts.backup is not None and site.hosts.backup.postgresql is not None
    if there and name not in by_role and not archive:
        why = f"needs a host with the role {name}, and there is none"
        yield Finding(("hosts", section.key), why, f"give a host the role {name}", SOURCES)
    if not there and name in by_role and not (section.unless == "databases" and databases(site)):
        why = f"has the role {name}, and hosts.{section.key} does not say what it serves"
        path: KeyPath = (*by_role[name][0].path, "roles")
        yield Finding(path, why, f"below hosts: {section.example}", (("hosts", section.key),))


def _postgresql(site: Site, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """Several servers: a number that survives the loss of one, one address in front."""
    # a duplicate name is reported as such
    servers = list({host.name: host for host in by_role.get("postgresql", [])}.values())
    if len(servers) < 2:
        return
    path: KeyPath = (*servers[-1].path, "roles")
    if len(servers) not in POSTGRESQL_SERVERS:
        names = ", ".join(host.name for host in servers)
        why = f"the role postgresql is on {len(servers)} hosts: {names}; of an even number, half cannot elect a primary"
        fix = f"give a{' third' if len(servers) == 2 else 'nother'} host the role postgresql, or remove it here"
        yield Finding(path, why, fix if len(servers) < 5 else "1, 3 or 5 hosts with the role postgresql", SOURCES)
    balancers = by_role.get("load_balancer", [])
    if not balancers:
        why = "several PostgreSQL servers need a host with the role load_balancer, at which clients reach the primary"
        first: KeyPath = (*servers[0].path, "roles")
        yield Finding(first, why, "give another host the role load_balancer", SOURCES)
    if site.hosts.backup is not None and (stored := backup_items(site, ("postgresql",))):
        why = "dumps the databases of one PostgreSQL server only, and there are several"
        fix = f"below hosts.backup: postgresql: {{}}, or exclude: [{', '.join(stored)}]"
        yield Finding(("hosts", "backup"), why, fix, SOURCES)
    for host in balancers:
        if "postgresql" in host.roles:
            why = "both load_balancer and postgresql listen at port 5432 where there are several PostgreSQL servers"
            yield Finding((*host.path, "roles"), why, "give another host the role load_balancer")


def _cluster(site: Site, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    if site.cluster is None:
        for role in by_role:
            if roles()[role].needs.cluster:
                why = f"has the role {role}, and the site has no cluster"
                yield Finding((*by_role[role][0].path, "roles"), why, "add cluster: {name: …}", (("cluster",),))
        return
    path: KeyPath = ("cluster", "datastore")
    if "kube_control_plane" not in by_role:
        why = "needs a host with the role kube_control_plane, and there is none"
        if "kube_node" not in by_role:  # else reported with the node
            yield Finding(("cluster",), why, "give a host the role kube_control_plane", SOURCES)
    if site.cluster.installer == "kubeadm":
        yield from _control_planes(site.cluster, by_role)
    if site.cluster.datastore == "kine" and "kine" not in by_role:
        yield Finding(
            path,
            "kine needs a host with the role kine, and there is none",
            "give a host the role kine, or datastore: etcd",
            SOURCES,
        )
    if site.cluster.datastore == "etcd" and "kine" in by_role:
        yield Finding(
            path, f"is etcd, and {by_role['kine'][0].name} has the role kine", "datastore: kine, or remove the role"
        )


def _control_planes(cluster: Cluster, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """Several, by kubeadm: a number that survives the loss of one, a datastore outside, one address in front."""
    control = by_role.get("kube_control_plane", [])
    if len(control) < 2:
        return
    path: KeyPath = (*control[1].path, "roles")
    if len(control) not in CONTROL_PLANES:
        why = f"the role kube_control_plane is on {len(control)} hosts: {', '.join(host.name for host in control)}"
        yield Finding((*control[-1].path, "roles"), why, "1, 3 or 5 control planes", SOURCES)
    if cluster.datastore != "kine":
        why = f"is {cluster.datastore}; several control planes by kubeadm need a datastore outside of them"
        yield Finding(("cluster", "datastore"), why, "datastore: kine, or installer: kubespray", SOURCES)
    balancers = by_role.get("load_balancer", [])
    if not balancers:
        why = "several control planes need a host with the role load_balancer, at which clients reach their API"
        yield Finding(path, why, "give a host the role load_balancer", SOURCES)
    for host in balancers:
        if "kube_control_plane" in host.roles:
            why = "both load_balancer and kube_control_plane listen at port 6443 where there are several control planes"
            yield Finding((*host.path, "roles"), why, "give another host the role load_balancer")
