"""A cluster that Kubespray installs: its datastore, its control planes and the API's address."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping

from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.kubespray import STRATA_SETS
from strata.models.site import Site
from strata.site.paths import REPOSITORY

SECTION: KeyPath = ("cluster", "kubespray")
INSTALLER: KeyPath = ("cluster", "installer")
NAMES = REPOSITORY / "tools" / "kubespray" / "names.json"
"""Names that the pinned Kubespray knows."""


@functools.cache
def known_variables() -> frozenset[str]:
    """The variables of the pinned Kubespray."""
    return frozenset(name for names in json.loads(NAMES.read_text())["variables"].values() for name in names)


@functools.cache
def groups() -> Mapping[str, str]:
    """Name to what it is in the inventory of the pinned Kubespray."""
    return dict.fromkeys(json.loads(NAMES.read_text())["groups"], "is a group of Kubespray")


def check(site: Site) -> Iterator[Finding]:
    """The section has its installer, etcd a majority, the virtual address no other use."""
    cluster = site.cluster
    if cluster is None:
        return
    section = cluster.kubespray
    if cluster.installer != "kubespray":
        if section is not None:
            why = f"is for installer: kubespray, and installer is {cluster.installer}"
            yield Finding(SECTION, why, "remove the section, or installer: kubespray", (INSTALLER,))
        return
    if cluster.datastore != "etcd":
        why = f"is {cluster.datastore}; Kubespray installs etcd on the control planes"
        yield Finding(("cluster", "datastore"), why, "datastore: etcd", (INSTALLER,))
    count = sum("kube_control_plane" in host.roles for host in declared_hosts(site))
    if count and count % 2 == 0:
        why = (
            f"needs an odd number of hosts with the role kube_control_plane for etcd's majority, and there are {count}"
        )
        yield Finding(INSTALLER, why, "1, 3 or 5 control planes")
    if section is not None:
        mirrors = enumerate(section.registry_mirrors)
        yield from duplicates((m.name, (*SECTION, "registry_mirrors", index, "name")) for index, m in mirrors)
        yield from _variables(section.variables)
        yield from _api_address(site)
        yield from _images(site)


def _variables(variables: Iterable[str]) -> Iterator[Finding]:
    for name in variables:
        path: KeyPath = (*SECTION, "variables", name)
        if name in STRATA_SETS:
            yield Finding(path, "is set by Strata", "remove it; see docs/reference/site.md for the key that it follows")
        elif name not in known_variables():
            yield Finding(
                path, "is not a variable of the pinned Kubespray", f"a name in {NAMES.relative_to(REPOSITORY)}"
            )


def _images(site: Site) -> Iterator[Finding]:
    """The site's images come from its registry."""
    assert site.cluster is not None
    assert site.cluster.kubespray is not None
    if site.cluster.kubespray.images == "site" and not any("registry" in host.roles for host in declared_hosts(site)):
        yield Finding((*SECTION, "images"), "is site, and no host has the role registry", "images: upstream")


def _api_address(site: Site) -> Iterator[Finding]:
    assert site.cluster is not None
    assert site.cluster.kubespray is not None
    address = site.cluster.kubespray.api_address
    if address is None:
        return
    path: KeyPath = (*SECTION, "api_address")
    owner = next((machine.name for machine in site.hosts.machines if machine.address == address), None)
    if owner is not None:
        yield Finding(path, f"is the address of {owner}", "an address that no host has")
    for key in ("pod_network", "service_network"):
        network = getattr(site.cluster, key)
        if address in network:
            yield Finding(path, f"is in cluster.{key} {network}", "an address of the control planes' network")
