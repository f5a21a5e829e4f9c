"""Names of hosts that mean something else: Ansible's names and groups, and names of services below the domain."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping

from strata.catalogue.needs.hostname import API_HOSTNAME
from strata.catalogue.published import published
from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata.roles import KUBERNETES_ROLES, NODES, roles
from strata.site.paths import REPOSITORY
from strata.site_file.checks import kolla, kubespray

KOLLA_GROUPS = REPOSITORY / "tools" / "kolla-ansible" / "groups.json"
"""Groups of the pinned Kolla-Ansible's inventory."""
ANSIBLE = dict.fromkeys(("all", "ungrouped", "localhost"), "is reserved by Ansible")
ROLES = {name: f"is the role {name}, an Ansible group whose variables the host would get" for name in roles()}
GROUPS = {**ANSIBLE, NODES: "is the Ansible group of the cluster's nodes", **ROLES}
"""Name to what it is in the inventory of each site."""


@functools.cache
def kolla_groups() -> Mapping[str, str]:
    """Name to what it is in Kolla-Ansible's inventory."""
    return {**ANSIBLE, **dict.fromkeys(json.loads(KOLLA_GROUPS.read_text()), "is a group of Kolla-Ansible")}


def check(site: Site) -> Iterator[Finding]:
    """No host is called like a group of the inventory it is in, or like a service."""
    taken = GROUPS | _services(site)
    if site.cloud is not None and site.cloud.control_network is not None:
        taken = {"controller": "is the name of the lab's OpenStack controller", **taken}
    by_kubespray = site.cluster is not None and site.cluster.installer == "kubespray"
    for host in declared_hosts(site):
        node = by_kubespray and not set(KUBERNETES_ROLES).isdisjoint(host.roles)
        yield from _reserved(host.name, host.path, {**kubespray.groups(), **taken} if node else taken)
    if site.cloud is not None and site.cloud.kolla is not None:
        for index, controller in enumerate(site.cloud.kolla.controllers):
            yield from _reserved(controller.name, (*kolla.CONTROLLERS, index), kolla_groups())
        for index, hypervisor in enumerate(site.cloud.hypervisors):
            yield from _reserved(hypervisor.name, ("cloud", "hypervisors", index), kolla_groups())


def _reserved(name: str, path: KeyPath, taken: Mapping[str, str]) -> Iterator[Finding]:
    if name in taken:
        yield Finding((*path, "name"), taken[name], f"another name, for instance {name}-1")


def _services(site: Site) -> dict[str, str]:
    """Names below the site's domain where something else responds."""
    used = {role for host in declared_hosts(site) for role in host.roles}
    reasons = {
        name: f"is the DNS name of the role {role}"
        for role in roles()
        if role in used
        for name in roles()[role].dns_names
    }
    for service in published(site):
        shared = service.hostname_key == API_HOSTNAME
        key = API_HOSTNAME if shared else ("platform", "services", service.key)
        reasons[service.hostname] = f"is the hostname of {dotted(key)}"
    return reasons
