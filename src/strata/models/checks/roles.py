"""Roles: which need which, and what they need declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.catalogue.needs.database import databases
from strata.models.checks.finding import INSTANCES, MACHINES, Finding, Host, hosts
from strata.models.site import Site
from strata.models.yaml_events import KeyPath
from strata.roles import Role, Section, roles

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
    yield from _cluster(site, by_role)


def _needs(name: str, role: Role, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """What a role that is on some host says of its number and of other roles."""
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
    if there and name not in by_role:
        why = f"needs a host with the role {name}, and there is none"
        yield Finding(("hosts", section.key), why, f"give a host the role {name}", SOURCES)
    if not there and name in by_role and not (section.unless == "databases" and databases(site)):
        why = f"has the role {name}, and hosts.{section.key} does not say what it serves"
        path: KeyPath = (*by_role[name][0].path, "roles")
        yield Finding(path, why, f"below hosts: {section.example}", (("hosts", section.key),))


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
        if "kube_node" not in by_role:  # else told with the node
            yield Finding(("cluster",), why, "give a host the role kube_control_plane", SOURCES)
    if site.cluster.installer == "kubeadm":
        control = by_role.get("kube_control_plane", [])
        for host in control[1:]:
            why = f"kube_control_plane is already on {control[0].name}; installer: kubeadm sets up one control plane"
            fix = "remove kube_control_plane here, or installer: kubespray"
            yield Finding((*host.path, "roles"), why, fix, (("cluster",),))
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
