"""What `strata up` brings up of a site, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection

from strata.errors import UserError
from strata.layers import Layer
from strata.site.context import SiteContext


def refusal(context: SiteContext, layers: Collection[Layer] = tuple(Layer)) -> UserError | None:
    """Returns why `up` refuses a site with these layers; None if it brings them up."""
    cluster = context.site.cluster
    if cluster is None or cluster.installer == "kubeadm" or Layer.CLUSTER not in layers:
        return None
    return UserError(
        f"{context.site_file}: cluster.installer: {cluster.installer} is not installed by this release",
        fix="take kubeadm, or run Kubespray by hand on the same inventory and then `--layer platform`",
    )


def remedy(context: SiteContext, layers: Collection[Layer]) -> str:
    """Returns what repairs objects of these layers: a clause without a full stop."""
    command = f"strata up {context.site.name}"
    if refusal(context) is None:
        return f"`{command}` repairs them"
    possible = [layer for layer in Layer if layer in layers and refusal(context, [layer]) is None]
    clauses = [f"`{command} --layer {layer}` repairs those of {layer}" for layer in possible]
    if len(possible) < len(set(layers)):
        clauses.append("those of cluster are Kubespray's: run it on the same inventory")
    return "; ".join(clauses)
