"""Variables of the role nfs_server."""

from __future__ import annotations

from strata.inventory.topology import client_networks
from strata.models import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all groups
    """The exports, open to the site's hosts and pods."""
    nfs = site.hosts.nfs
    return {
        "nfs_server_exports": [{"name": e.name, "path": str(e.path)} for e in nfs.exports] if nfs else [],
        "nfs_server_client_networks": client_networks(site),
    }
