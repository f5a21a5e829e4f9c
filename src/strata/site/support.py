"""What `strata up` brings up of a site, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection

from strata.errors import UserError
from strata.layers import Layer
from strata.site.context import SiteContext

SUPPORTED = ("kubeadm", "kine")
"""Installer and datastore; an etcd of kubeadm's would need an image that is not built."""
BY_KUBEADM = frozenset({Layer.CLUSTER, Layer.PLATFORM})
"""Layers that need a cluster by kubeadm; the platform's images are pushed together with the cluster's."""


def refusal(context: SiteContext, layers: Collection[Layer] = tuple(Layer)) -> UserError | None:
    """Returns why `up` refuses a site with these layers; None if it brings them up."""
    cluster = context.site.cluster
    if cluster is None or (cluster.installer, cluster.datastore) == SUPPORTED or not BY_KUBEADM & set(layers):
        return None
    below = "bring up the layers below it: `--layer cloud`, then `--layer hosts`"
    if cluster.installer == "kubespray":
        below += f"; `strata kubespray {context.site.name}` then shows what installs it"
    return UserError(
        f"{context.site_file}: cluster: installer: {cluster.installer} with datastore: {cluster.datastore} is not "
        "installed by this release",
        fix=f"use kubeadm with kine, or {below}",
    )


def remedy(context: SiteContext, layers: Collection[Layer]) -> str:
    """Returns what repairs objects of these layers: a clause without a full stop."""
    command = f"strata up {context.site.name}"
    if refusal(context) is None:
        return f"`{command}` repairs them"
    clauses = [
        f"`{command} --layer {layer}` repairs those of {layer}"
        if refusal(context, [layer]) is None
        else f"this release does not install those of {layer}"
        for layer in Layer
        if layer in layers
    ]
    return "; ".join(clauses)
