"""The record of machines that are nodes of the cluster: those that the site file no longer has leave it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from strata.models.hosts import Machine
from strata.roles import KUBERNETES_ROLES
from strata.site.context import SiteContext
from strata.site.outputs import Outputs


class MachineNodes(Outputs):
    """Machines that joined the cluster, or were about to."""

    file_name: ClassVar[str] = "machine-nodes.json"
    addresses: dict[str, str] = Field(default_factory=dict)
    """Name to address."""


def machine_nodes(context: SiteContext) -> dict[str, str]:
    """Name and address of the machines that the site file makes nodes."""
    if context.site.cluster is None:
        return {}
    return {m.name: str(m.address) for m in context.site.hosts.machines if set(KUBERNETES_ROLES) & set(m.roles)}


def leaving_machines(context: SiteContext) -> dict[str, str]:
    """Name and address of machines in the cluster that the site file no longer has as nodes, or not at that address."""
    known = MachineNodes.load(context.paths) or MachineNodes()
    return dict(known.addresses.items() - machine_nodes(context).items())


def remember_nodes(context: SiteContext) -> None:
    """Records the site file's machines, before they join and after those that leave have left."""
    nodes = machine_nodes(context)
    if nodes or MachineNodes.load(context.paths) is not None:
        MachineNodes(addresses=nodes).save(context.paths)


def with_machines(context: SiteContext, nodes: dict[str, str]) -> SiteContext:
    """The context as of a site file that has these nodes: SSH reaches them as it did while they were in it.

    Args:
        context: the site.
        nodes: name to address; they take the place of machines of the same name.
    """
    hosts = context.site.hosts
    added = (Machine(name=name, address=address, roles=("kube_node",)) for name, address in nodes.items())
    machines = (*(m for m in hosts.machines if m.name not in nodes), *added)
    site = context.site.model_copy(update={"hosts": hosts.model_copy(update={"machines": machines})})
    return SiteContext(site, context.site_file, context.paths)
