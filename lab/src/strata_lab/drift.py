"""What a lab has beside its instances: containers that podman must have running."""

from __future__ import annotations

from strata.access.podman import container_status
from strata.drift_model import MISSING, Drift
from strata.layers import Layer
from strata.models.site import Site
from strata_lab import backup_store, controller
from strata_lab.network import container

RUNNING = "running"


def lab_drift(site: Site) -> list[Drift]:
    """The controller, the network agent, which security groups and routers depend on, and the store of the backups."""
    names = {
        "controller": controller.container_name(site),
        "network agent": container.container_name(site.name),
    }
    if backup_store.store_address(site) is not None:
        names["backup store"] = backup_store.container_name(site.name)
    drifts = []
    for what, name in names.items():
        status = container_status(name)
        if status != RUNNING:
            drifts.append(
                Drift(
                    layer=Layer.CLOUD,
                    object=f"{what}: container {name}",
                    property="state",
                    wanted=RUNNING,
                    found=status or MISSING,
                )
            )
    return drifts
