"""A flavor, with the accelerators that its instances get."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
import pulumi_openstack as openstack

from strata.cloud.flavor_cards import ALIAS

GPU_KEY = "gpu"
"""Metadata key of aggregates that flavors ask for."""
WITHOUT = "none"
"""Its value on hosts without cards: keeps CPU instances off the GPU hosts where there are others."""


@dataclass(frozen=True)
class FlavorArgs:
    """One flavor.

    Args:
        name: in OpenStack.
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        disk_gib: root disk in GiB.
        accelerators: kind (nova's PCI alias) to number of cards.
        aggregate: value of the key `gpu` of the aggregates whose hosts may carry it; None for any host.
        existing: whether the cloud has it.
        placement: extra specs for CPU pinning, huge pages and NUMA.
    """

    name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    accelerators: dict[str, int] = field(default_factory=dict)
    aggregate: str | None = None
    existing: bool = False
    placement: dict[str, str] = field(default_factory=dict)

    def extra_specs(self) -> dict[str, str]:
        """What nova's scheduler is asked for beyond CPUs and memory."""
        kinds = sorted(self.accelerators)
        specs = {} if self.aggregate is None else {f"aggregate_instance_extra_specs:{GPU_KEY}": self.aggregate}
        if kinds:
            specs[ALIAS] = ",".join(f"{kind}:{self.accelerators[kind]}" for kind in kinds)
        return specs | self.placement


class Flavor(pulumi.ComponentResource):
    """Flavor in nova, created for all projects, or found by its name."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: FlavorArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Flavor", name, None, opts)
        if args.existing:
            self.id = openstack.compute.get_flavor_output(
                name=args.name, opts=pulumi.InvokeOutputOptions(parent=self)
            ).id
        else:
            flavor = openstack.compute.Flavor(
                name,
                name=args.name,
                vcpus=args.vcpus,
                ram=args.memory_mib,
                disk=args.disk_gib,
                is_public=True,
                extra_specs=args.extra_specs(),
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
            self.id = flavor.id
        self.register_outputs({"id": self.id})
