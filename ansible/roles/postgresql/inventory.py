"""Variables of the role postgresql."""

from __future__ import annotations

from strata.catalogue.site_needs import databases
from strata.inventory.clients import database_clients
from strata.inventory.port_numbers import POSTGRESQL
from strata.inventory.topology import database_secret, secret, service_certificate
from strata.models.site import Site
from strata.site.data_protection import ProtectedResources
from strata.site.host_list import archived_postgresql, replicated_postgresql
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths

DEFAULT_SETTINGS: dict[str, object] = {"max_connections": 200}
"""Where `hosts.postgresql.settings` does not set others."""
ARCHIVE_SETTINGS: dict[str, object] = {
    "archive_mode": "on",
    "archive_command": "/usr/bin/pgbackrest --stanza=postgresql archive-push %p",
    "archive_timeout": "60s",
}
"""With pgBackRest, whose role brings the configuration."""


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Databases with generated passwords, each open over TLS to its own clients."""
    replicated = replicated_postgresql(site)
    return {
        "postgresql_port": POSTGRESQL,
        "postgresql_certificate": service_certificate(
            "postgresql", "postgresql", site, outputs, *(("load_balancer",) if replicated else ())
        ),
        "postgresql_replicated": replicated,
        "postgresql_databases": [
            {"name": d, "password": secret(database_secret(d)), "clients": database_clients(d, site, outputs)}
            for d in databases(site)
        ],
        "postgresql_settings": DEFAULT_SETTINGS
        | (ARCHIVE_SETTINGS if archived_postgresql(site) else {})
        | (dict(site.hosts.postgresql.settings) if site.hosts.postgresql else {}),
        "postgresql_removed_databases": list(ProtectedResources.of(SitePaths(site.name)).leaving("database")),
    }
