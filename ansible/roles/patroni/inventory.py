"""Variables of the role patroni."""

from __future__ import annotations

from strata.inventory.topology import host_networks_with, secret
from strata.models.site import Site
from strata.roles import port
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The hosts with the role postgresql, and passwords by which they replicate from each other."""
    members = hosts_with("postgresql", site, outputs)
    return {
        "patroni_port": port("patroni"),
        "patroni_etcd_port": port("patroni", "patroni-etcd"),
        "patroni_etcd_peer_port": port("patroni", "patroni-etcd-peers"),
        "patroni_members": {h.name: f"[{h.address}]" if ":" in h.address else h.address for h in members},
        "patroni_member_networks": host_networks_with(("postgresql",), site, outputs),
        **{f"patroni_{user}_password": secret(f"postgresql_{user}_password") for user in USERS},
    }


USERS = ("superuser", "replication", "rewind")
"""Of PostgreSQL, which own no databases."""
