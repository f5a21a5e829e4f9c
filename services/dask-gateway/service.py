"""Dask Gateway: Dask clusters for the users of JupyterHub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.service import Service
from strata.catalogue.site_needs import dask_hub
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.dask_gateway.needs import dask_server, needs
from strata_services.dask_gateway.settings import DaskGateway
from strata_services.dask_gateway.values import values

KEY: KeyPath = ("platform", "services", "dask_gateway")
HUB: KeyPath = ("platform", "services", "jupyterhub")
TENANTS: KeyPath = ("platform", "tenants")


def check(_: DaskGateway, site: Site, __: Path) -> Iterator[Finding]:
    """Its users are those of the hub, and its clusters are in tenants' namespaces."""
    if dask_hub(site) is None:
        yield Finding(KEY, "needs JupyterHub, whose users it serves", "add jupyterhub: {} beside it", (HUB,))
    if not site.platform.tenants:
        yield Finding(KEY, "needs a tenant, in whose namespace clusters run", "add one to platform.tenants", (TENANTS,))


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    check=check,
    values=values,
    dask_server=dask_server,
)
