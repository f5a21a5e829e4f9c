"""Roles: which need which, and what they need declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.catalogue.needs.database import databases
from strata.models.checks.finding import INSTANCES, MACHINES, Finding, Host, hosts
from strata.models.site import Site
from strata.models.yaml_events import KeyPath

SINGLE = ("nfs_server", "postgresql", "kine", "registry", "load_balancer", "slurm_controller", "condor_manager")
"""Roles that one host of a site has at most."""
ON_HOST: Mapping[str, str] = {"gpu_node": "kube_node"}
"""A role and the role that the same host must have."""
ON_SITE: Mapping[str, str] = {
    "kine": "postgresql",
    "kube_node": "kube_control_plane",
    "slurm_node": "slurm_controller",
    "condor_submit": "condor_manager",
    "condor_execute": "condor_manager",
}
"""A role and the role that some host must have."""
SOURCES: tuple[KeyPath, ...] = (INSTANCES, MACHINES)


def check(site: Site) -> Iterator[Finding]:
    """Roles against each other and against the sections that they carry out."""
    by_role: dict[str, list[Host]] = {}
    for host in hosts(site):
        for role in dict.fromkeys(host.roles):  # one that stands twice is told as such
            by_role.setdefault(role, []).append(host)
    for role in SINGLE:
        for host in by_role.get(role, [])[1:]:
            why = f"{role} is already on {by_role[role][0].name}; one host of a site has this role"
            yield Finding((*host.path, "roles"), why, f"remove {role} here")
    for role, needed in ON_SITE.items():
        if role in by_role and needed not in by_role:
            why = f"{role} needs a host with the role {needed}, and there is none"
            yield Finding((*by_role[role][0].path, "roles"), why, f"give a host the role {needed}", SOURCES)
    for role, needed in ON_HOST.items():
        for host in by_role.get(role, []):
            if needed not in host.roles:
                yield Finding(
                    (*host.path, "roles"), f"{role} needs the role {needed} on the same host", f"add {needed}"
                )
    yield from _sections(site, by_role)
    yield from _cluster(site, by_role)


def _sections(site: Site, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    """Each section has its role, each role its section."""
    sections: tuple[tuple[str, str, object, str], ...] = (
        ("nfs", "nfs_server", site.hosts.nfs, "nfs: {exports: [{name: data, path: /srv/nfs/data}]}"),
        ("postgresql", "postgresql", site.hosts.postgresql, "postgresql: {databases: [mlflow]}"),
        ("slurm", "slurm_controller", site.hosts.slurm, "slurm: {name: …, partitions: […]}"),
    )
    for key, role, section, example in sections:
        if section is not None and role not in by_role:
            why = f"needs a host with the role {role}, and there is none"
            yield Finding(("hosts", key), why, f"give a host the role {role}", SOURCES)
        # PostgreSQL may serve kine and the platform's services alone, whose databases need no declaration
        if (
            section is None
            and role in by_role
            and not (role == "postgresql" and ("kine" in by_role or databases(site)))
        ):
            why = f"has the role {role}, and hosts.{key} does not say what it serves"
            yield Finding((*by_role[role][0].path, "roles"), why, f"below hosts: {example}", (("hosts", key),))


def _cluster(site: Site, by_role: Mapping[str, list[Host]]) -> Iterator[Finding]:
    if site.cluster is None:
        for role in ("kube_control_plane", "kube_node", "kine"):
            if role in by_role:
                why = f"has the role {role}, and the site has no cluster"
                yield Finding((*by_role[role][0].path, "roles"), why, "add cluster: {name: …}", (("cluster",),))
        return
    path: KeyPath = ("cluster", "datastore")
    if "kube_control_plane" not in by_role:
        why = "needs a host with the role kube_control_plane, and there is none"
        if "kube_node" not in by_role:  # else told with the node
            yield Finding(("cluster",), why, "give a host the role kube_control_plane", SOURCES)
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
