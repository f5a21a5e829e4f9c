"""Hypervisors of the cloud, images, flavors, instances, and how nova spreads these."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StrictBool, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerator_kinds import AcceleratorCounts, AcceleratorKind
from strata.models.base import Model, Unit
from strata.models.hosts import Role
from strata.models.pci_passthrough import PciPassthrough
from strata.models.types import Count, DnsLabel, HttpsUrl, IPAddress, ResourceName, Size
from strata.models.volumes import BootVolume, Volume

MD5_DIGITS = 32


class Hypervisor(Model):
    """A physical host that runs instances."""

    name: Annotated[DnsLabel, Field(description="Host name, as nova reports it.")]
    vcpus: Annotated[Count, Unit("virtual CPUs"), Field(description="Virtual CPUs for instances.")]
    memory: Annotated[Size, Field(description="Memory for instances.")]
    disk: Annotated[Size, Field(description="Local disk for instances.")]
    accelerators: Annotated[AcceleratorCounts, Unit("cards"), Field(description="Number of cards, by kind.")] = Field(
        default_factory=dict
    )
    pci_passthrough: Annotated[
        PciPassthrough | None,
        Field(description="kolla: its PCI devices, for the role pci_passthrough. Default: all cards of accelerators."),
    ] = None
    address: Annotated[IPAddress | None, Field(description="kolla: address for SSH, on cloud.kolla.network.")] = None
    dedicated_cpus: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$")] | None,
        Field(
            description='kolla: CPUs for flavors with dedicated_cpus, for example "4-39,44-79"; the others are shared.'
        ),
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

    name: Annotated[ResourceName, Field(description="Name of the server group.")]
    policy: Annotated[
        Literal["anti-affinity", "soft-anti-affinity", "affinity", "soft-affinity"],
        Field(
            description="anti-affinity: each instance on another hypervisor, an error if there are too few; "
            "affinity: all on one. With soft-: as far as it is possible."
        ),
    ] = "anti-affinity"


class Flavor(Model):
    """A size of instances."""

    name: Annotated[ResourceName, Field(description="Name of the flavor.")]
    existing: Annotated[
        StrictBool,
        Field(description="Whether it exists already; it must then have the properties listed here."),
    ] = False
    vcpus: Annotated[Count, Unit("virtual CPUs"), Field(description="Virtual CPUs.")]
    memory: Annotated[Size, Field(description="Memory; whole MiB.")]
    disk: Annotated[Size, Field(description="Root disk; whole GiB. 0 GiB: only for instances with boot_volume.")]
    accelerators: Annotated[
        AcceleratorCounts, Unit("cards"), Field(description="Cards passed through to the instance, by kind.")
    ] = Field(default_factory=dict)
    aliases: Annotated[
        dict[AcceleratorKind, ResourceName],
        Field(description="existing: the cloud's PCI alias of a kind, where it is not the kind's name."),
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
        self.memory.require_whole("memory", "MiB", 20)
        self.disk.require_whole("disk", "GiB", 20, least=0)
        return self

    @model_validator(mode="after")
    def _aliases_of_existing(self) -> Self:
        if self.aliases and not self.existing:
            why = "is for an existing flavor; flavors that Strata creates use the kind's name"
            raise PydanticCustomError("aliases", "{why}", {"key": "aliases", "why": why, "fix": "remove aliases"})
        if other := sorted(self.aliases.keys() - self.accelerators.keys()):
            why, fix = f"names {', '.join(other)}, and accelerators does not", "name the same kinds in both"
            raise PydanticCustomError("aliases", "{why}", {"key": "aliases", "why": why, "fix": fix})
        return self


class Image(Model):
    """An operating system image."""

    name: Annotated[ResourceName, Field(description="Name in glance.")]
    distribution: Annotated[Literal["debian"], Field(description="Distribution; the roles support Debian only.")]
    release: Annotated[
        str,
        Field(
            min_length=1, max_length=32, pattern=r"^[0-9A-Za-z][0-9A-Za-z.]*$", description='Release, in quotes: "12".'
        ),
    ]
    id: Annotated[
        UUID | None,
        Field(
            description="existing: id in glance. Default: the image with this name when the site is first deployed; "
            "a later upload of the same name is not used."
        ),
    ] = None
    checksum: Annotated[
        str | None,
        Field(
            pattern=r"^([0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{128})$",
            description="existing: digest that glance must report: MD5 (checksum), SHA-256 or SHA-512 (os_hash_value). "
            "With url: SHA-256 or SHA-512 of the file.",
        ),
    ] = None
    url: Annotated[
        HttpsUrl | None,
        Field(
            description="kolla: file in the format qcow2 or raw that Strata uploads. If it cannot be downloaded, put "
            "it into images/ of the mirror directory. Default: glance has an image with this name."
        ),
    ] = None

    @property
    def disk_format(self) -> str:
        """Of the file at `url`, by the end of its name; empty if it is none that glance knows by it."""
        return next((extension for extension in ("qcow2", "raw") if (self.url or "").endswith(f".{extension}")), "")

    @model_validator(mode="after")
    def _downloaded(self) -> Self:
        if self.url is None:
            return self
        if not self.disk_format:
            why = "must end in .qcow2 or .raw, which is the format that glance gets"
            raise PydanticCustomError("image_format", "{why}", {"key": "url", "why": why, "fix": "another file"})
        if self.checksum is None or len(self.checksum) == MD5_DIGITS:
            why = "is required with url, as SHA-256 or SHA-512 of the file"
            fix = "the digest that the distribution publishes beside the file (SHA512SUMS)"
            raise PydanticCustomError("image_digest", "{why}", {"key": "checksum", "why": why, "fix": fix})
        if self.id is not None:
            why = "is of an image that glance has, and url uploads one"
            raise PydanticCustomError("image_source", "{why}", {"key": "id", "why": why, "fix": "remove id or url"})
        return self


class Instance(Model):
    """A virtual machine with its roles."""

    name: Annotated[DnsLabel, Field(description="Host name.")]
    flavor: Annotated[str, Field(description="Name of a flavor of cloud.flavors.")]
    image: Annotated[str, Field(description="Name of an image of cloud.images.")]
    network: Annotated[str, Field(description="Name of a network of cloud.networks.")]
    roles: Annotated[tuple[Role, ...], Field(min_length=1, description="Roles; each is also an Ansible group.")]
    floating_ip: Annotated[
        StrictBool,
        Field(description="Whether it gets an address of the external network, at which it is reachable from outside."),
    ] = False
    server_group: Annotated[
        str | None, Field(description="Name of a server group of cloud.server_groups. A change replaces the instance.")
    ] = None
    availability_zone: Annotated[
        ResourceName | None,
        Field(description="existing: availability zone. A change replaces the instance. Default: the cloud's choice."),
    ] = None
    boot_volume: Annotated[
        BootVolume | None,
        Field(
            description="Root disk on a volume of cinder; adding or removing it replaces the instance. Default: the "
            "hypervisor's disk, with the flavor's size."
        ),
    ] = None
    volumes: Annotated[
        tuple[Volume, ...],
        Field(description="Data volumes of cinder, which are kept when the instance is replaced."),
    ] = ()
