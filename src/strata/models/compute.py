"""Hypervisors of the cloud, flavors of its instances, and how nova spreads these."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerators import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, IPAddress, ResourceName, Size


class Hypervisor(Model):
    """A physical machine that runs instances."""

    layer: ClassVar[str] = "cloud"
    name: Annotated[DnsLabel, Field(description="Host name, as nova reports it.")]
    vcpus: Annotated[Count, Unit("virtual CPUs"), Field(description="Virtual CPUs that it offers.")]
    memory: Annotated[Size, Field(description="Memory that it offers to instances.")]
    disk: Annotated[Size, Field(description="Local disk that it offers to instances.")]
    accelerators: Annotated[AcceleratorCounts, Unit("cards"), Field(description="Cards in it, by kind.")] = Field(
        default_factory=dict
    )
    address: Annotated[
        IPAddress | None, Field(description="kolla: where Ansible reaches it over SSH, on cloud.kolla.network.")
    ] = None
    dedicated_cpus: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$")] | None,
        Field(description='kolla: CPUs for flavors with dedicated_cpus, as in "4-39,44-79"; the others are shared.'),
    ] = None

    @property
    def shared_cpus(self) -> tuple[int, ...]:
        """CPUs that are not dedicated."""
        dedicated: set[int] = set()
        for part in (self.dedicated_cpus or "").split(",") if self.dedicated_cpus else ():
            first, _, last = part.partition("-")
            dedicated.update(range(int(first), int(last or first) + 1))
        return tuple(cpu for cpu in range(self.vcpus) if cpu not in dedicated)

    @model_validator(mode="after")
    def _cpus_exist(self) -> Self:
        numbers = [int(n) for part in (self.dedicated_cpus or "").split(",") for n in part.split("-") if n]
        if numbers and (max(numbers) >= self.vcpus or not self.shared_cpus):
            raise PydanticCustomError(
                "cpus_outside",
                "must be some of the CPUs 0 to {last}, and leave some for the host",
                {"key": "dedicated_cpus", "last": self.vcpus - 1, "fix": f'for instance "2-{self.vcpus - 1}"'},
            )
        return self


class ServerGroup(Model):
    """Instances that nova keeps on different hypervisors, or on one."""

    layer: ClassVar[str] = "cloud"
    name: Annotated[ResourceName, Field(description="Name of the server group.")]
    policy: Annotated[
        Literal["anti-affinity", "soft-anti-affinity", "affinity", "soft-affinity"],
        Field(
            description="anti-affinity: each instance on another hypervisor, and an error where there are too few; "
            "affinity: all on one. With soft-: as far as it is possible."
        ),
    ] = "anti-affinity"


class Flavor(Model):
    """A size of instances."""

    layer: ClassVar[str] = "cloud"
    name: Annotated[ResourceName, Field(description="Name of the flavor.")]
    existing: Annotated[
        StrictBool,
        Field(description="Whether the cloud has it already; it must then offer what is listed here."),
    ] = False
    vcpus: Annotated[Count, Unit("virtual CPUs"), Field(description="Virtual CPUs.")]
    memory: Annotated[Size, Field(description="Memory; whole MiB.")]
    disk: Annotated[Size, Field(description="Root disk; whole GiB.")]
    accelerators: Annotated[
        AcceleratorCounts, Unit("cards"), Field(description="Cards passed through to the instance, by kind.")
    ] = Field(default_factory=dict)
    dedicated_cpus: Annotated[
        StrictBool, Field(description="Whether each virtual CPU is pinned to a dedicated CPU of the hypervisor.")
    ] = False
    huge_pages: Annotated[
        Literal["2 MiB", "1 GiB"] | None,
        Field(description="Size of the memory pages, reserved on the hypervisor's kernel command line."),
    ] = None
    numa_nodes: Annotated[
        Count | None, Unit("NUMA nodes"), Field(description="NUMA nodes of the instance. Default: nova decides.")
    ] = None

    @property
    def placement_specs(self) -> dict[str, str]:
        """Extra specs for CPU pinning, huge pages and NUMA."""
        specs = {"hw:cpu_policy": "dedicated"} if self.dedicated_cpus else {}
        if self.huge_pages:
            specs["hw:mem_page_size"] = {"2 MiB": "2MB", "1 GiB": "1GB"}[self.huge_pages]
        return specs | ({"hw:numa_nodes": str(self.numa_nodes)} if self.numa_nodes else {})

    @model_validator(mode="after")
    def _whole_units(self) -> Self:
        for key, size, unit in (("memory", self.memory, "MiB"), ("disk", self.disk, "GiB")):
            if size.bytes % Size.units[unit] or size.bytes == 0:
                raise PydanticCustomError(
                    "whole_unit",
                    "must be a whole number of {unit}, at least one",
                    {"key": key, "unit": unit, "fix": f"for instance 20 {unit}"},
                )
        return self
