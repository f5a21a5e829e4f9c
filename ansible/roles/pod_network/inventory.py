"""Variables of the role pod_network."""

from __future__ import annotations

from strata.inventory.kubernetes import cluster_of
from strata.models import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """The network of all pods."""
    return {"pod_network_cidr": str(cluster_of(site).pod_network)}
