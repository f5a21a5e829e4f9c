"""Variables of the role keepalived."""

from __future__ import annotations

from strata.models.site import Site
from strata.site.host_list import LOAD_BALANCER, hosts_with
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The load balancers and the address that they share."""
    section = site.hosts.load_balancer
    if section is None:
        return {}
    return {
        "keepalived_virtual_address": str(section.virtual_address),
        "keepalived_members": {host.name: host.address for host in hosts_with(LOAD_BALANCER, site, outputs)},
    }
