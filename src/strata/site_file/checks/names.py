"""Duplicate names, and references to unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE
from strata.catalogue.published import published
from strata.catalogue.site_volumes import service_volumes
from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding, duplicates
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.roles import DEBIAN_RELEASES, roles
from strata.site_file.problems import suggestion

RESERVED_NAMESPACES = frozenset(
    {
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "strata-system",
        INGRESS_NAMESPACE,
        MONITORING_NAMESPACE,
    }
)

ADMINISTRATORS = "admins"

REFERENCES = {"flavor": "flavors", "image": "images", "network": "networks", "server_group": "server_groups"}
"""Key of an instance to the section of the cloud that has what it names."""


def check(site: Site) -> Iterator[Finding]:
    """Duplicates and unknown references."""
    for entries in _named(site):
        yield from duplicates(entries)
    yield from _references(site)
    yield from _access(site)
    for index, tenant in enumerate(site.platform.tenants):
        if tenant.name in RESERVED_NAMESPACES:
            path: KeyPath = ("platform", "tenants", index, "name")
            yield Finding(path, "is a namespace of Kubernetes or the platform", "another name, for instance research")
        elif tenant.name == ADMINISTRATORS:
            why = "is the group of each tenant's principal investigators at the issuer"
            yield Finding(("platform", "tenants", index, "name"), why, "another name, for instance research")
    for index, image in enumerate(site.cloud.images if site.cloud is not None else ()):
        if image.release not in DEBIAN_RELEASES:
            fix = f"release: {' or '.join(DEBIAN_RELEASES)}, in quotes"
            yield Finding(("cloud", "images", index, "release"), "is not a Debian release that the roles support", fix)


def _named(site: Site) -> Iterator[list[tuple[str, KeyPath]]]:
    """Lists of names that must differ, each with its path."""
    if site.cloud is not None:
        for section in ("hypervisors", "networks", "images", "flavors", "server_groups"):
            yield _names(getattr(site.cloud, section), ("cloud", section))
        for index, network in enumerate(site.cloud.networks):
            yield _values(network.dns_servers, ("cloud", "networks", index, "dns_servers"))
    yield [(host.name, (*host.path, "name")) for host in declared_hosts(site)]
    for host in declared_hosts(site):
        yield _values(host.roles, (*host.path, "roles"))
    yield [(str(m.address), ("hosts", "machines", i, "address")) for i, m in enumerate(site.hosts.machines)]
    yield _names(site.hosts.operators, ("hosts", "operators"))
    for index, operator in enumerate(site.hosts.operators):
        yield _values(operator.keys, ("hosts", "operators", index, "keys"))
    if site.hosts.nfs is not None:
        needed = [(need, ("platform", "services", service.key)) for service, need in service_volumes(site)]
        named = _names(site.hosts.nfs.exports, ("hosts", "nfs", "exports"))
        yield [*((need.name, key) for need, key in needed), *named]
        paths = [(str(e.path), ("hosts", "nfs", "exports", i, "path")) for i, e in enumerate(site.hosts.nfs.exports)]
        yield [*((str(need.path(site)), key) for need, key in needed), *paths]
        for index, export in enumerate(site.hosts.nfs.exports):
            yield _values(export.clients, ("hosts", "nfs", "exports", index, "clients"))
    yield _values(site.hosts.registry.robots, ("hosts", "registry", "robots"))
    for key in type(site.access).model_fields:
        yield _values(getattr(site.access, key), ("access", key))
    if site.hosts.postgresql is not None:
        yield _values(site.hosts.postgresql.databases, ("hosts", "postgresql", "databases"))
    if site.cluster is not None:
        # Kubernetes distinguishes taints  by key and effect
        marks = [re.sub("=[^:]*", "", taint) for taint in site.cluster.gpu_nodes.taints]
        yield _values(marks, ("cluster", "gpu_nodes", "taints"))
    yield _names(site.platform.tenants, ("platform", "tenants"))
    for index, tenant in enumerate(site.platform.tenants):
        at: KeyPath = ("platform", "tenants", index)
        yield [
            *_names(tenant.principal_investigators, (*at, "principal_investigators")),
            *_names(tenant.members, (*at, "members")),
        ]
    yield _names(site.secrets, ("secrets",))
    used = {role for host in declared_hosts(site) for role in host.roles}
    # the API's name once, which its services share
    names = dict.fromkeys((service.hostname, service.hostname_key) for service in published(site))
    yield [(name, ("domain",)) for role in roles() if role in used for name in roles()[role].dns_names] + [*names]


def _names(entries: Iterable[object], path: KeyPath) -> list[tuple[str, KeyPath]]:
    return [(str(getattr(entry, "name", "")), (*path, index, "name")) for index, entry in enumerate(entries)]


def _values(values: Iterable[object], path: KeyPath) -> list[tuple[str, KeyPath]]:
    return [(str(value), (*path, index)) for index, value in enumerate(values)]


def _references(site: Site) -> Iterator[Finding]:
    if site.cloud is not None:
        for key, section in REFERENCES.items():
            known = [entry.name for entry in getattr(site.cloud, section)]
            known_set = set(known)
            source: KeyPath = ("cloud", section)
            for index, instance in enumerate(site.cloud.instances):
                reference = getattr(instance, key)
                if reference is not None and reference not in known_set:
                    fix = suggestion(reference, known, section)
                    yield Finding(("cloud", "instances", index, key), f"is not in cloud.{section}", fix, (source,))


def _access(site: Site) -> Iterator[Finding]:
    """The bastion, and the login that Ansible uses."""
    reachable = [i.name for i in (site.cloud.instances if site.cloud else ()) if i.floating_ip]
    reachable += [machine.name for machine in site.hosts.machines]
    bastion = site.hosts.bastion
    if bastion is not None and bastion not in reachable:
        if bastion in {host.name for host in declared_hosts(site)}:
            why, fix = "has no floating IP", f"floating_ip: true for the instance {bastion}"
        else:
            fix = suggestion(bastion, reachable, "hosts that are reachable from outside")
            why = "is not a host of the site"
        yield Finding(("hosts", "bastion"), why, fix, (INSTANCES, MACHINES))
    for index, operator in enumerate(site.hosts.operators):
        if operator.name == site.hosts.ssh_user:
            path: KeyPath = ("hosts", "operators", index, "name")
            yield Finding(path, "is hosts.ssh_user, the login of Strata itself", "another name")
