"""Variables of the role kube_node."""

from __future__ import annotations

from strata.models import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Group variables of `kube_node`: none, what marks a node comes from its further groups."""
    return {}
