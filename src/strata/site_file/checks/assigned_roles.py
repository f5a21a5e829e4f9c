"""Roles: which need which, and what they need declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.catalogue.site_needs import databases
from strata.models.base import RoleSection
from strata.models.cluster import Cluster
from strata.models.declared_hosts import DeclaredHost, declared_hosts
from strata.models.finding import Finding
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.roles import Role, Section, roles

CONTROL_PLANES = (1, 3, 5)
SOURCES: tuple[KeyPath, ...] = (INSTANCES, MACHINES)


def check(site: Site) -> Iterator[Finding]:
    """Roles against each other and against the sections that they carry out."""
    by_role: dict[str, list[DeclaredHost]] = {}
    for host in declared_hosts(site):
        for role in dict.fromkeys(host.roles):  # a duplicate has a finding of its own
            by_role.setdefault(role, []).append(host)
    for name, facts in roles().items():
        if name in by_role:
            yield from _needs(name, facts, by_role)
        yield from _section(site, name, facts.needs.section, by_role)
    yield from _cluster(site, by_role)


def _needs(name: str, role: Role, by_role: Mapping[str, list[DeclaredHost]]) -> Iterator[Finding]:
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


def _section(
    site: Site, name: str, section: Section | None, by_role: Mapping[str, list[DeclaredHost]]
) -> Iterator[Finding]:
    """A section of site.yaml has its role, the role its section."""
    if section is None:
        return
    declared = getattr(site.hosts, section.key)
    needed = not isinstance(declared, RoleSection) or declared.needs_role
    if declared is not None and name not in by_role and needed:
        why = f"needs a host with the role {name}, and there is none"
        yield Finding(("hosts", section.key), why, f"give a host the role {name}", SOURCES)
    if declared is None and name in by_role and not (section.unless == "databases" and databases(site)):
        why = f"has the role {name}, and hosts.{section.key} does not say what it serves"
        path: KeyPath = (*by_role[name][0].path, "roles")
        yield Finding(path, why, f"below hosts: {section.example}", (("hosts", section.key),))


def _cluster(site: Site, by_role: Mapping[str, list[DeclaredHost]]) -> Iterator[Finding]:
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


def _control_planes(cluster: Cluster, by_role: Mapping[str, list[DeclaredHost]]) -> Iterator[Finding]:
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
