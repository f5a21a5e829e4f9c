"""JupyterHub: zero-to-jupyterhub's chart, behind the site's issuer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from strata.catalogue.service import Service
from strata.models.finding import Finding
from strata_services.jupyterhub.needs import needs
from strata_services.jupyterhub.settings import JupyterHub
from strata_services.jupyterhub.values import values

if TYPE_CHECKING:
    from strata.models import Site
    from strata.models.yaml_events import KeyPath

KEY: KeyPath = ("platform", "services", "jupyterhub")


def check(settings: JupyterHub, site: Site, _: Path) -> Iterator[Finding]:
    """Profiles are unique, and name tenants and accelerators that the site has."""
    from strata.platform.accelerators import cluster_kinds  # imported late: the site model is built from this module

    tenants = [tenant.name for tenant in site.platform.tenants]
    kinds = cluster_kinds(site)
    seen: set[str] = set()
    for index, profile in enumerate(settings.profiles):
        key: KeyPath = (*KEY, "profiles", index)
        if profile.name in seen:
            yield Finding((*key, "name"), "duplicate of another profile's", "another name")
        seen.add(profile.name)
        for tenant in profile.tenants:
            if tenant not in tenants:
                fix = f"one of {', '.join(tenants)}" if tenants else "add it to platform.tenants"
                yield Finding((*key, "tenants"), f"the site has no tenant {tenant}", fix, (("platform", "tenants"),))
        for kind in profile.accelerators:
            if kind not in kinds:
                fix = f"one of {', '.join(kinds)}" if kinds else "give a host the role gpu_node and accelerators"
                yield Finding((*key, "accelerators"), f"no node of the cluster has an accelerator {kind}", fix)


SERVICE = Service(
    folder=Path(__file__).parent,
    settings=JupyterHub,
    needs=needs,
    check=check,
    values=values,
    pod_annotations=("hub.annotations", "proxy.annotations"),
)
