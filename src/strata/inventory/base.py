"""Variables of the role base."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.services import published_services
from strata.models import Site
from strata.site.hosts import address_of, hosts
from strata.site.outputs import CloudOutputs

SERVICE_NAMES = {"nfs": "nfs_server", "postgresql": "postgresql", "kine": "kine", "registry": "registry"}
"""Name below the site's domain to the role that answers there."""


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Names of hosts and services, the site's authority, and who logs in, for every host."""
    names = [
        {"name": name, "address": address}
        for name, role in SERVICE_NAMES.items()
        if (address := address_of(role, site, outputs)) is not None
    ]
    door = address_of("load_balancer", site, outputs)
    if door is not None:
        names += [{"name": service.hostname, "address": door} for service in published_services(site)]
    return {
        "base_hosts": [{"name": host.name, "address": host.address} for host in hosts(site, outputs)],
        "base_service_names": names,
        "base_users": [
            {"name": user.name, "keys": list(user.keys), "sudo": user.administrator} for user in site.hosts.operators
        ],
        "base_ca": Template("{{ lookup('strata_ca') }}"),
    }
