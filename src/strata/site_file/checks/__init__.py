"""What must hold between the parts of a site."""

from __future__ import annotations

from pathlib import Path

from strata.models.finding import Finding
from strata.models.site import Site
from strata.role_modules import role_module
from strata.roles import roles
from strata.site_file.checks import (
    accelerators,
    assigned_roles,
    capacity,
    gpu_images,
    gpu_pools,
    host_names,
    kolla,
    kubespray,
    names,
    networks,
    pci_passthrough,
    people,
    services,
    state,
    storage,
    volumes,
)


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
        pci_passthrough,
        gpu_pools,
        gpu_images,
        capacity,
        kolla,
        kubespray,
        assigned_roles,
        volumes,
        state,
        storage,
    )
    for module in own:
        findings += module.check(site)
    for role in roles():
        if (of_role := role_module(role, "site_checks")) is not None:
            findings += of_role.check(site)
    return findings + list(services.check(site, directory))
