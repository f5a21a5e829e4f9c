"""Variables of the role kine."""

from __future__ import annotations

from strata.catalogue.needs.database import KINE_DATABASE
from strata.inventory.port_numbers import DATASTORE, POSTGRESQL
from strata.inventory.topology import database_secret, secret, service_certificate
from strata.models.site import Site
from strata.site.host_list import address_of, hosts_with, replicated_postgresql
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory

LOOPBACK = "127.0.0.1"


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """kine beside its database where both are on one host, else at the database's address."""
    server = address_of("postgresql", site, outputs)
    beside = all("postgresql" in host.roles for host in hosts_with("kine", site, outputs))
    database = LOOPBACK if server is None or (beside and not replicated_postgresql(site)) else server
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
