"""Volumes: whether the cloud has cinder, instances without a root disk, and names and directories that must differ."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.cloud import Cloud
from strata.models.finding import Finding, duplicates
from strata.models.key_path import INSTANCES, KeyPath
from strata.models.site import Site

FLAVORS: KeyPath = ("cloud", "flavors")
KOLLA_CEPH: KeyPath = ("cloud", "kolla", "ceph")


def check(site: Site) -> Iterator[Finding]:
    """Volumes are in clouds with cinder; their names are unique in the site, their directories on the instance.

    Each instance has a root disk.
    """
    if site.cloud is None:
        return
    yield from _root_disks(site.cloud)
    paths = [(*INSTANCES, index) for index, _ in enumerate(site.cloud.instances)]
    instances = list(zip(paths, site.cloud.instances, strict=True))
    if not site.cloud.block_storage:
        kolla = site.cloud.kolla is not None
        why = f"needs cinder, which the cloud has {'only with cloud.kolla.ceph' if kolla else 'not'}"
        for path, instance in instances:
            for key in ("boot_volume", "volumes"):
                if getattr(instance, key):
                    fix = f"{'add cloud.kolla.ceph, or ' if kolla else ''}remove {key}"
                    yield Finding((*path, key), why, fix, (KOLLA_CEPH,) if kolla else ())
        return
    yield from duplicates(
        (volume.name, (*path, "volumes", position, "name"))
        for path, instance in instances
        for position, volume in enumerate(instance.volumes)
    )
    for path, instance in instances:
        yield from duplicates(
            (str(volume.mount_path), (*path, "volumes", position, "mount_path"))
            for position, volume in enumerate(instance.volumes)
        )


def _root_disks(cloud: Cloud) -> Iterator[Finding]:
    """nova starts an instance on a disk of 0 GiB for administrators only, and the disk is as small as the image."""
    without = {flavor.name for flavor in cloud.flavors if not flavor.disk.bytes}
    for index, instance in enumerate(cloud.instances):
        if instance.flavor in without and instance.boot_volume is None:
            fix = "a flavor with a disk"
            if cloud.block_storage:
                fix = f"add boot_volume: {{size: 20 GiB}} to the instance, or choose {fix}"
            why = f"the flavor has no root disk (disk: 0 GiB), and the instance {instance.name} has no boot_volume"
            yield Finding((*INSTANCES, index, "flavor"), why, fix, (FLAVORS,))
