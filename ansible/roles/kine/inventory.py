"""Variables of the role kine."""

from __future__ import annotations

from strata.catalogue.needs.database import KINE_DATABASE
from strata.inventory.ports import DATASTORE, POSTGRESQL
from strata.inventory.topology import database_secret, secret, service_certificate
from strata.models import Site
from strata.site.hosts import hosts_with
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """kine beside its database where both are on one host, else at the database's address."""
    servers = hosts_with("postgresql", site, outputs)
    beside = bool(servers) and all("postgresql" in host.roles for host in hosts_with("kine", site, outputs))
    database = "127.0.0.1" if beside or not servers else servers[0].address
    return {
        "kine_binary": str(bin_directory() / "kine"),
        "kine_port": DATASTORE,
        "kine_certificate": service_certificate("kine", "kine", site, outputs),
        "kine_database": {
            "host": database,
            "port": POSTGRESQL,
            "name": KINE_DATABASE,
            "user": KINE_DATABASE,
            "password": secret(database_secret(KINE_DATABASE)),
        },
    }
