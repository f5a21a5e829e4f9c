"""Variables of the role volumes."""

from __future__ import annotations

from pathlib import Path

from strata.catalogue.site_volumes import limited_paths
from strata.models.compute import Instance
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The volumes of each host, those that others are mounted below first; one that is not attached has no id."""
    instances = outputs.instances if outputs else {}
    return {
        "volumes_of_hosts": {
            instance.name: [
                {
                    "name": volume.name,
                    "id": instances[instance.name].volumes.get(volume.name, "") if instance.name in instances else "",
                    "mount_path": str(volume.mount_path),
                    "project_quotas": volume.mount_path in limited,
                }
                for volume in sorted(instance.volumes, key=lambda volume: volume.mount_path)
            ]
            for instance in (site.cloud.instances if site.cloud else ())
            if instance.volumes
            for limited in (_limited(site, instance),)
        }
    }


def _limited(site: Site, instance: Instance) -> set[Path]:
    """Where an instance mounts the volumes that have exports with limits for their folders."""
    mounted = {volume.mount_path for volume in instance.volumes}
    paths = limited_paths(site) if "nfs_server" in instance.roles else ()
    return {next((parent for parent in (path, *path.parents) if parent in mounted), path) for path in paths}
