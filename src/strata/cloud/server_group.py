"""Which instances nova keeps on different hypervisors, or on one."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class ServerGroupArgs:
    """One server group.

    Args:
        name: in nova, where it need not be unique.
        policy: affinity or anti-affinity; "soft-" in front for as far as possible.
    """

    name: str
    policy: str


class ServerGroup(pulumi.ComponentResource):
    """Server group in nova."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: ServerGroupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:ServerGroup", name, None, opts)
        group = openstack.compute.ServerGroup(
            name, name=args.name, policies=args.policy, opts=pulumi.ResourceOptions(parent=self)
        )
        self.id = group.id
        self.register_outputs({"id": self.id})
