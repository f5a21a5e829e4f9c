"""A cloud that Kolla-Ansible deploys: what its parts need of the rest of the site."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.checks.finding import Finding
from strata.models.finding import duplicates
from strata.models.site import Site
from strata.models.yaml_events import KeyPath

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
