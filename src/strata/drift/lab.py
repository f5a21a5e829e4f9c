"""What a lab has beside its instances: containers that podman must have running."""

from __future__ import annotations

from strata.drift.model import MISSING, Drift
from strata.engine.context import SiteContext
from strata.engine.steps import Layer
from strata.lab import controller
from strata.lab.network import container
from strata.lab.podman import container_status

RUNNING = "running"


def lab_drift(context: SiteContext) -> list[Drift]:
    """The controller and the network agent, which security groups and routers depend on."""
    names = {
        "controller": controller.container_name(context.site),
        "network agent": container.container_name(context.site.name),
    }
    found = []
    for what, name in names.items():
        status = container_status(name)
        if status != RUNNING:
            found.append(
                Drift(
                    layer=Layer.CLOUD,
                    object=f"{what}: container {name}",
                    property="state",
                    wanted=RUNNING,
                    found=status or MISSING,
                )
            )
    return found
