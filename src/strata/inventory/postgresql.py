"""Variables of the role postgresql."""

from __future__ import annotations

from strata.catalogue.needs.database import KINE_DATABASE, databases
from strata.inventory.ports import POSTGRESQL
from strata.inventory.topology import database_secret, host_networks_with, secret, service_certificate
from strata.models import Site
from strata.site.data_protection import Ledger
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths

SERVICE_ROLES = ("kube_node",)
"""Roles whose hosts run pods of services; these reach the database with their node's address."""
CLIENT_ROLES = ("kine", *SERVICE_ROLES)
DEFAULT_SETTINGS: dict[str, object] = {"max_connections": 200}
"""Where `hosts.postgresql.settings` says nothing else."""


def database_clients(database: str, site: Site, outputs: CloudOutputs | None) -> list[str]:
    """Networks (CIDR) from which a database's owner may log in: kine's hosts, or nodes and pods."""
    if database == KINE_DATABASE:
        return host_networks_with(("kine",), site, outputs)
    pods = [str(site.cluster.pod_network)] if site.cluster else []
    return [*host_networks_with(SERVICE_ROLES, site, outputs), *pods]


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Databases with generated passwords, each open over TLS to its own clients."""
    return {
        "postgresql_port": POSTGRESQL,
        "postgresql_certificate": service_certificate("postgresql", "postgresql", site, outputs),
        "postgresql_databases": [
            {"name": d, "password": secret(database_secret(d)), "clients": database_clients(d, site, outputs)}
            for d in databases(site)
        ],
        "postgresql_settings": DEFAULT_SETTINGS
        | (dict(site.hosts.postgresql.settings) if site.hosts.postgresql else {}),
        "postgresql_removed_databases": list(Ledger.of(SitePaths(site.name)).leaving("database")),
    }
