"""A cloud that Kolla-Ansible deploys: what its parts need of the rest of the site."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from strata.models.finding import Finding, duplicates
from strata.models.key_path import MACHINES, KeyPath, dotted
from strata.models.kolla import Kolla
from strata.models.site import Site

CONTROLLERS: KeyPath = ("cloud", "kolla", "controllers")
CEPH_SECRETS = ("kolla_ceph_glance_key", "kolla_ceph_cinder_key")


def check(site: Site) -> Iterator[Finding]:
    """Keys of Ceph come from the operator; flavors with dedicated CPUs have hypervisors that offer enough."""
    if site.cloud is None or site.cloud.kolla is None:
        return
    controllers = site.cloud.kolla.controllers
    for key in ("name", "address"):
        entries = [(str(getattr(c, key)), (*CONTROLLERS, index, key)) for index, c in enumerate(controllers)]
        yield from duplicates(entries)
    if len({c.name for c in controllers}) == len(controllers) and len(controllers) % 2 == 0:
        why = f"has {len(controllers)} hosts; MariaDB and RabbitMQ need an odd number for a majority"
        yield Finding(CONTROLLERS, why, "1, 3 or 5 controllers")
    monitors = site.cloud.kolla.ceph.monitors if site.cloud.kolla.ceph else ()
    yield from duplicates(
        (str(monitor), ("cloud", "kolla", "ceph", "monitors", index)) for index, monitor in enumerate(monitors)
    )
    yield from _virtual_addresses(site, site.cloud.kolla)
    provided = {secret.name for secret in site.secrets if secret.source != "generated"}
    missing = [name for name in CEPH_SECRETS if name not in provided]
    if site.cloud.kolla.ceph is not None and missing:
        why = f"needs the keys of Ceph's users, and secrets has no {' and no '.join(missing)}"
        fix = f"secrets: [{{name: {missing[0]}, source: environment}}]"
        yield Finding(("cloud", "kolla", "ceph"), why, fix, (("secrets",),))
    dedicated = max(h.vcpus - len(h.shared_cpus) for h in site.cloud.hypervisors)
    for index, flavor in enumerate(site.cloud.flavors):
        if flavor.dedicated_cpus and flavor.vcpus > dedicated:
            why = f"needs {flavor.vcpus} dedicated CPUs of one hypervisor, which offers {dedicated} at most"
            fix = "dedicated_cpus of a hypervisor, or remove the line"
            path = ("cloud", "flavors", index, "dedicated_cpus")
            yield Finding(path, why, fix, (("cloud", "hypervisors"),))


def _virtual_addresses(site: Site, kolla: Kolla) -> Iterator[Finding]:
    """Another host's address would answer before keepalived has it; Kolla-Ansible finds that after minutes."""
    owners = {m.address: (*MACHINES, index, "address") for index, m in enumerate(site.hosts.machines)}
    if kolla.ceph is not None:
        owners |= {a: ("cloud", "kolla", "ceph", "monitors", index) for index, a in enumerate(kolla.ceph.monitors)}
    networks: dict[IPv4Network | IPv6Network, KeyPath] = {
        n.cidr: ("cloud", "networks", index, "cidr")
        for index, n in enumerate(site.cloud.networks if site.cloud else ())
    }
    if site.cluster is not None:
        networks |= {
            site.cluster.pod_network: ("cluster", "pod_network"),
            site.cluster.service_network: ("cluster", "service_network"),
        }
    for key, virtual in (("internal", kolla.internal), ("external", kolla.external)):
        path: KeyPath = ("cloud", "kolla", key, "address")
        if virtual.address in owners:
            where = owners[virtual.address]
            yield Finding(path, f"is the address of {dotted(where)} too", "an address that no host has", (where,))
        for network, where in networks.items():
            if virtual.address in network:
                why = f"is in {dotted(where)} ({network}), whose addresses are behind the cloud that it is to lead to"
                yield Finding(path, why, "an address outside of it", (where,))
