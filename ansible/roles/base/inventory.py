"""Variables of the role base."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.topology import service_names
from strata.models.site import Site
from strata.roles import DEBIAN_RELEASES
from strata.site.host_list import hosts
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Names of hosts and services, the site's authority, and who logs in, for every host."""
    return {
        "base_releases": list(DEBIAN_RELEASES),
        "base_hosts": [{"name": host.name, "address": host.address} for host in hosts(site, outputs)],
        "base_service_names": service_names(site, outputs),
        "base_users": [
            {"name": user.name, "keys": list(user.keys), "sudo": user.administrator} for user in site.hosts.operators
        ],
        "base_ca": Template("{{ lookup('strata_ca') }}"),
    }
