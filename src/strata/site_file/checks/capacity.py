"""Quota and hypervisors against what is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.cloud import Cloud
from strata.models.compute import Flavor
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.models.types import Size

FLAVORS: KeyPath = ("cloud", "flavors")
HYPERVISORS: KeyPath = ("cloud", "hypervisors")
QUOTA: KeyPath = ("cloud", "project", "quota")


def check(site: Site) -> Iterator[Finding]:
    """The project's quota holds its instances; each flavor fits on a hypervisor."""
    if site.cloud is None:
        return
    yield from _quota(site.cloud)
    for index, flavor in enumerate(site.cloud.flavors):
        yield from _fits(site.cloud, flavor, (*FLAVORS, index))


def _quota(cloud: Cloud) -> Iterator[Finding]:
    flavors = {flavor.name: flavor for flavor in cloud.flavors}
    used = [flavors[instance.flavor] for instance in cloud.instances if instance.flavor in flavors]
    cores, memory = sum(f.vcpus for f in used), Size(sum(f.memory.bytes for f in used))
    quota = cloud.project.quota
    if quota is None:  # the cloud's own; compared before anything is created
        return
    if len(cloud.instances) > quota.instances:
        why = f"is smaller than what is declared: {len(cloud.instances)} instances"
        yield Finding((*QUOTA, "instances"), why, f"{len(cloud.instances)} or more")
    if cores > quota.cores:
        yield Finding((*QUOTA, "cores"), f"is smaller than what instances need: {cores}", f"{cores} or more")
    if memory > quota.memory:
        yield Finding((*QUOTA, "memory"), f"is smaller than what instances need: {memory}", f"{memory} or more")


def _fits(cloud: Cloud, flavor: Flavor, path: KeyPath) -> Iterator[Finding]:
    """nova never puts an instance on a hypervisor smaller than the flavor, whatever it overcommits."""
    holders = [
        h for h in cloud.hypervisors if all(h.accelerators.get(k, 0) >= n for k, n in flavor.accelerators.items())
    ]
    if not holders:
        return  # reported by the check of accelerators, or not known
    what = "hypervisor with its cards" if flavor.accelerators else "hypervisor"
    for key in ("vcpus", "memory", "disk"):
        asked, most = getattr(flavor, key), max(getattr(h, key) for h in holders)
        if asked > most:
            yield Finding((*path, key), f"is more than any {what} has: {most}", f"at most {most}", (HYPERVISORS,))
