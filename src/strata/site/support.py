"""What `strata up` brings up of a site, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection

from strata.errors import UserError
from strata.layers import Layer
from strata.site.context import SiteContext
from strata.site.installer_facts import installer_of
from strata.site.outputs import ClusterOutputs

CLUSTER_LAYERS = frozenset({Layer.CLUSTER, Layer.PLATFORM})
"""Layers that need a cluster; the platform's images are pushed together with the cluster's."""


def refusal(context: SiteContext, layers: Collection[Layer] = tuple(Layer)) -> UserError | None:
    """Returns why `up` refuses a site with these layers; None if it brings them up."""
    cluster = context.site.cluster
    if cluster is None or not CLUSTER_LAYERS & set(layers):
        return None
    installer, deployed = installer_of(context.site), ClusterOutputs.load(context.paths)
    if cluster.datastore not in installer.datastores:
        return UserError(
            f"{context.site_file}: cluster: installer: {cluster.installer} with datastore: {cluster.datastore} is not "
            "installed by this release",
            fix="use kubeadm with kine or kubespray with etcd, or bring up the layers below it: `--layer cloud`, then "
            "`--layer hosts`",
        )
    if deployed is not None and deployed.installer != installer.name:
        return UserError(
            f"{context.site_file}: cluster.installer = {installer.name}: {deployed.installer} installed the cluster",
            fix=f"installer: {deployed.installer}; for another installer, `strata destroy {context.site.name}` first",
            see="a-layer-is-asked-for-that-the-site-does-not-have",
        )
    return None


def remedy(context: SiteContext, layers: Collection[Layer], what: str = "them") -> str:
    """Returns what repairs objects of these layers: a clause without a full stop.

    Args:
        context: the site.
        layers: of the objects.
        what: the objects, in words.
    """
    command = f"strata up {context.site.name}"
    if refusal(context) is None:
        return f"`{command}` repairs {what}"
    clauses = [
        f"`{command} --layer {layer}` repairs those of {layer}"
        if refusal(context, [layer]) is None
        else f"this release does not install those of {layer}"
        for layer in Layer
        if layer in layers
    ]
    return "; ".join(clauses)
