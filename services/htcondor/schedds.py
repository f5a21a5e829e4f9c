"""The schedds of the access point: a queue for each tenant, found by name (daemons) or by port (its members)."""

from __future__ import annotations

from zlib import crc32

from strata.catalogue.needs.batch_queue import Schedd
from strata.models.site import Site
from strata_services.htcondor.needs import NAMESPACE

HOST = f"htcondor-access-point.{NAMESPACE.name}.svc"
FIRST_PORT, PORTS = 20000, 10_000
"""Below the ports that Linux gives to connections."""


def schedds(site: Site) -> dict[str, Schedd]:
    """By tenant. A port follows from the tenant's name: another tenant that comes or goes leaves it as it is."""
    by_tenant: dict[str, Schedd] = {}
    used: set[int] = set()
    for tenant in site.platform.tenants:
        port = crc32(tenant.name.encode()) % PORTS
        while port in used:
            port = (port + 1) % PORTS
        used.add(port)
        by_tenant[tenant.name] = Schedd(f"{tenant.name}@{site.domain}", HOST, FIRST_PORT + port)
    return by_tenant
