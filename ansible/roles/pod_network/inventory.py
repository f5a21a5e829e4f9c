"""Variables of the role pod_network."""

from __future__ import annotations

from strata.inventory.kubernetes import cluster_of
from strata.models import Site
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """The network of all pods, and what enforces the policies between them."""
    return {
        "pod_network_cidr": str(cluster_of(site).pod_network),
        "pod_network_policies_binary": str(bin_directory() / "network-policies"),
    }
