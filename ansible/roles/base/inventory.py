"""Variables of the role base."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.services import published_services
from strata.models import Site
from strata.roles import DEBIAN_RELEASES, roles
from strata.site.hosts import address_of, hosts
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Names of hosts and services, the site's authority, and who logs in, for every host."""
    names = [
        {"name": name, "address": address}
        for role, facts in roles().items()
        if (address := address_of(role, site, outputs)) is not None
        for name in facts.dns_names
    ]
    load_balancer = address_of("load_balancer", site, outputs)
    if load_balancer is not None:
        names += [{"name": service.hostname, "address": load_balancer} for service in published_services(site)]
    return {
        "base_releases": list(DEBIAN_RELEASES),
        "base_hosts": [{"name": host.name, "address": host.address} for host in hosts(site, outputs)],
        "base_service_names": names,
        "base_users": [
            {"name": user.name, "keys": list(user.keys), "sudo": user.administrator} for user in site.hosts.operators
        ],
        "base_ca": Template("{{ lookup('strata_ca') }}"),
    }
