"""Hypervisors of one kind of accelerator."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from strata.cloud.flavor import GPU_KEY


@dataclass(frozen=True)
class AggregateArgs:
    """One host aggregate.

    Args:
        name: in OpenStack.
        kind: accelerator kind, "none" for hosts without.
        hosts: names of the hypervisors as nova knows them.
    """

    name: str
    kind: str
    hosts: tuple[str, ...]


class Aggregate(pulumi.ComponentResource):
    """Host aggregate that flavors of the kind are scheduled to."""

    def __init__(self, name: str, args: AggregateArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Aggregate", name, None, opts)
        openstack.compute.AggregateV2(
            name,
            name=args.name,
            hosts=list(args.hosts),
            metadata={GPU_KEY: args.kind},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
