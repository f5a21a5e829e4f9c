"""Variables of the role volumes."""

from __future__ import annotations

from strata.models import Site
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
                }
                for volume in sorted(instance.volumes, key=lambda volume: volume.mount_path)
            ]
            for instance in (site.cloud.instances if site.cloud else ())
            if instance.volumes
        }
    }
