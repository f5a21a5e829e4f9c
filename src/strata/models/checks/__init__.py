"""What must hold between the parts of a site."""

from __future__ import annotations

from pathlib import Path

from strata.models.checks import (
    accelerators,
    backup,
    capacity,
    data_transfer,
    gpu_images,
    gpu_pools,
    host_names,
    kolla,
    kubespray,
    names,
    networks,
    people,
    roles,
    services,
    slurm,
    state,
    storage,
    virtual_address,
    volumes,
)
from strata.models.finding import Finding
from strata.models.site import Site


def cross_check(site: Site, directory: Path) -> list[Finding]:
    """All findings on a site whose keys are right each for itself.

    Args:
        site: the model.
        directory: where the site file is; paths in it are relative to that.
    """
    findings: list[Finding] = []
    own = (
        names,
        people,
        host_names,
        networks,
        accelerators,
        gpu_pools,
        gpu_images,
        capacity,
        kolla,
        kubespray,
        roles,
        virtual_address,
        volumes,
        slurm,
        state,
        storage,
        data_transfer,
        backup,
    )
    for module in own:
        findings += module.check(site)
    return findings + list(services.check(site, directory))
