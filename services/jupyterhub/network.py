"""Rules of the NetworkPolicies of hub, proxy and servers."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from strata.catalogue.need import pods_peer
from strata.catalogue.needs.client import ClientAccess
from strata.catalogue.needs.database import DatabaseAccess
from strata.catalogue.service import Values

CLOSED: Values = {
    "cloudMetadataServer": False,
    "dnsPortsCloudMetadataServer": False,
    "dnsPortsKubeSystemNamespace": True,
    "dnsPortsPrivateIPs": False,
    "nonPrivateIPs": False,
    "privateIPs": False,
}
"""Of a NetworkPolicy: DNS, and what its rules name."""


def tcp(port: int | str) -> Values:
    """Port of a rule, by number or name."""
    return {"port": port, "protocol": "TCP"}


def address(host: str) -> Values:
    """Peer of a rule: one host."""
    return {"ipBlock": {"cidr": f"{host}/{ip_address(host).max_prefixlen}"}}


def database_rule(database: DatabaseAccess) -> Values:
    """Egress to the hub's database."""
    return {"to": [address(database.host)], "ports": [tcp(database.port)]}


def issuer_rules(access: ClientAccess) -> Iterator[Values]:
    """Egress to an issuer in the cluster, or one outside on other ports than 443."""
    if access.pods:
        yield {"to": [pods_peer(access.namespace, access.pods)], "ports": [tcp("http")]}
    if access.ports:
        yield {"ports": [tcp(port) for port in access.ports]}
