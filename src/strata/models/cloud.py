"""The cloud layer: what OpenStack has and what is made in it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from strata.models.address_pool import AddressPool
from strata.models.base import Model, Unit
from strata.models.compute import Flavor, Hypervisor, Image, Instance, ServerGroup
from strata.models.ipv6 import IPv6Subnet
from strata.models.kolla import Kolla, check_hypervisors
from strata.models.types import Count, IPAddress, IPNetwork, IPv4Net, ResourceName, Size

RESERVED_ADDRESSES = 10
"""Addresses of a network that its default pool leaves free for the gateway and fixed addresses."""
MINIMUM_ADDRESSES = 8
"""Smallest network: its own address, the gateway, neutron's DHCP port, one instance, the broadcast address."""


class Quota(Model):
    """Limits of the project."""

    instances: Annotated[Count, Unit("instances"), Field(description="Maximum number of instances.")]
    cores: Annotated[Count, Unit("virtual CPUs"), Field(description="Total virtual CPUs of all instances.")]
    memory: Annotated[Size, Field(description="Total memory of all instances.")]


class Project(Model):
    """The OpenStack project of the site."""

    name: Annotated[ResourceName, Field(description="Name of the project.")]
    existing: Annotated[
        StrictBool, Field(description="Whether it exists already; Strata then does not change it or its quota.")
    ] = False
    quota: Annotated[Quota | None, Field(description="Limits of the project; an existing project has its own.")] = None

    @model_validator(mode="after")
    def _quota(self) -> Self:
        if self.existing and self.quota is not None:
            raise PydanticCustomError(
                "quota_existing",
                "is for projects that Strata creates; the quota of an existing one is its administrator's",
                {"key": "quota", "fix": "remove the section"},
            )
        if not self.existing and self.quota is None:
            raise PydanticCustomError(
                "quota_missing",
                "is required",
                {"key": "quota", "fix": "add quota: {instances: …, cores: …, memory: …}, or existing: true"},
            )
        return self


def _gateway(data: dict[str, Any]) -> IPv4Address | IPv6Address:
    address: IPv4Address | IPv6Address = data["cidr"][1]
    return address


def _pool(data: dict[str, Any]) -> AddressPool:
    cidr = data["cidr"]
    first = RESERVED_ADDRESSES if cidr.num_addresses > 4 * RESERVED_ADDRESSES else 2
    return AddressPool(start=cidr[first], end=cidr[-2])


class Network(Model):
    """A network of the project with one subnet."""

    name: Annotated[ResourceName, Field(description="Name of the network and its subnet.")]
    existing: Annotated[
        StrictBool,
        Field(
            description="Whether network and subnet exist already (found by name and addresses); Strata adds no router."
        ),
    ] = False
    cidr: Annotated[IPNetwork, Field(description="Addresses of the subnet.")]
    gateway: Annotated[IPAddress, Field(description="Router of the subnet. Default: its first address.")] = Field(
        default_factory=_gateway
    )
    allocation_pool: Annotated[
        AddressPool,
        Field(
            description=f"Addresses for instances. Default: from the subnet's address {RESERVED_ADDRESSES} to its last."
        ),
    ] = Field(default_factory=_pool)
    dns_servers: Annotated[
        tuple[IPAddress, ...], Field(description="Name servers of the instances. Default: the hypervisor's.")
    ] = ()

    ipv6: Annotated[
        IPv6Subnet | None,
        Field(
            description="Second subnet, with IPv6 addresses; on an existing network, it must exist. Instances get an "
            "address of each; Strata connects over IPv4."
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.cidr.version == 6 and not self.existing:
            raise PydanticCustomError(
                "ipv6_alone",
                "is an IPv6 network, and hosts of a site need IPv4 among themselves",
                {"key": "cidr", "fix": f"an IPv4 network, and ipv6: {{cidr: {self.cidr}}} beside it"},
            )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cidr.num_addresses < MINIMUM_ADDRESSES:
            raise PydanticCustomError(
                "network_small",
                "has too few addresses for instances",
                {"key": "cidr", "fix": "a prefix of /29 or shorter"},
            )
        for key, address in (
            ("gateway", self.gateway),
            ("allocation_pool", self.allocation_pool.start),
            ("allocation_pool", self.allocation_pool.end),
        ):
            if address not in self.cidr:
                raise PydanticCustomError(
                    "address_outside",
                    "is not in {cidr}",
                    {"key": key, "cidr": str(self.cidr), "fix": f"an address of {self.cidr}"},
                )
        if self.allocation_pool.size < 1:
            raise PydanticCustomError(
                "pool_reversed", "ends before it starts", {"key": "allocation_pool", "fix": "exchange start and end"}
            )
        if int(self.allocation_pool.start) <= int(self.gateway) <= int(self.allocation_pool.end):
            raise PydanticCustomError(
                "pool_gateway",
                "holds the gateway {gateway}",
                {"key": "allocation_pool", "gateway": str(self.gateway), "fix": "leave the gateway out of the pool"},
            )
        return self


def _administrator(data: dict[str, Any]) -> bool:
    return data.get("deployment") == "lab" or bool(data.get("hypervisors"))


def _external_network(data: dict[str, Any]) -> str | None:
    kolla = data.get("kolla")
    created = data.get("control_network") is not None or (kolla is not None and kolla.external_network is not None)
    return "public" if created else None


class Cloud(Model):
    """The OpenStack cloud."""

    deployment: Annotated[
        Literal["lab", "existing", "kolla"],
        Field(
            description="lab: Strata runs OpenStack on this host. existing: an entry of clouds.yaml. "
            "kolla: Kolla-Ansible deploys OpenStack on cloud.kolla.controllers and cloud.hypervisors."
        ),
    ]
    kolla: Annotated[Kolla | None, Field(description="kolla: how Kolla-Ansible deploys the cloud.")] = None
    credentials: Annotated[
        ResourceName | None, Field(description="existing: entry of clouds.yaml. Default: the site's name.")
    ] = None
    hypervisors: Annotated[
        tuple[Hypervisor, ...],
        Field(description="Hosts that run instances; required if Strata administers the cloud, otherwise omitted."),
    ] = ()
    administrator: Annotated[
        StrictBool,
        Field(
            description="existing: whether the credentials are an administrator's; Strata then creates the "
            "project, its quota, flavors and host aggregates. Default: true in a lab and if hypervisors are listed; "
            "otherwise false, and a member's rights are enough."
        ),
    ] = Field(default_factory=_administrator)
    control_network: Annotated[
        IPv4Net | None, Field(description="lab: network of the controller, which has its address 10.")
    ] = None
    project: Annotated[Project, Field(description="The OpenStack project of the site.")]
    networks: Annotated[tuple[Network, ...], Field(min_length=1, description="Networks of the project.")]
    external_network: Annotated[
        ResourceName | None,
        Field(
            description="External network of the router, by name or, in an existing cloud, id. Default in a lab: "
            "public, created on the control network; kolla: public if cloud.kolla.external_network describes it; "
            "otherwise none, for networks that need no router."
        ),
    ] = Field(default_factory=_external_network)
    images: Annotated[tuple[Image, ...], Field(min_length=1, description="Operating system images.")]
    flavors: Annotated[tuple[Flavor, ...], Field(min_length=1, description="Sizes of instances.")]
    server_groups: Annotated[
        tuple[ServerGroup, ...], Field(description="Groups of instances that share a hypervisor or are kept apart.")
    ] = ()
    instances: Annotated[tuple[Instance, ...], Field(description="Virtual machines.")] = ()

    @model_validator(mode="after")
    def _deployment(self) -> Self:
        lab = self.deployment == "lab"
        if lab and self.control_network is None:
            raise PydanticCustomError(
                "lab_control",
                "is needed for a lab",
                {"key": "control_network", "fix": "for instance control_network: 10.87.0.0/24"},
            )
        kolla = self.deployment == "kolla"
        if kolla != (self.kolla is not None):
            raise PydanticCustomError(
                "kolla_section",
                "is needed for deployment: kolla" if kolla else "is for deployment: kolla",
                {"key": "kolla", "fix": "add kolla: with registry, network, …" if kolla else "remove the section"},
            )
        if kolla and not (self.hypervisors and self.administrator):
            key, verb, fix = "administrator", "true", "remove the line"
            if not self.hypervisors:
                key, verb, fix = "hypervisors", "required", "list the hosts that run instances, with their addresses"
            raise PydanticCustomError(
                "kolla_compute", "is {verb} for deployment: kolla", {"key": key, "verb": verb, "fix": fix}
            )
        uploaded = next((image.name for image in self.images if image.url is not None), None)
        if uploaded is not None and not kolla:
            raise PydanticCustomError(
                "image_url",
                "have a url for {image}, and Strata uploads images only to a cloud of deployment: kolla",
                {"key": "images", "image": uploaded, "fix": "upload it yourself and remove url"},
            )
        if self.kolla is not None:
            check_hypervisors(self.kolla, self.hypervisors)
        if self.deployment != "existing" and self.credentials is not None:
            raise PydanticCustomError(
                "lab_credentials",
                "is for an existing cloud; a cloud that Strata deploys has its own",
                {"key": "credentials", "fix": "remove the line"},
            )
        if not lab and self.control_network is not None:
            raise PydanticCustomError(
                "existing_control",
                "is for a lab; other clouds have controllers of their own",
                {"key": "control_network", "fix": "remove the line"},
            )
        return self

    @property
    def block_storage(self) -> bool:
        """Whether it has cinder, according to the site file."""
        if self.kolla is not None:
            return self.kolla.ceph is not None
        return self.deployment == "existing"

    @property
    def configures_nova(self) -> bool:
        """Whether Strata configures nova on its hypervisors; others do so in an existing cloud."""
        return self.deployment != "existing"

    @property
    def on_deployment_host(self) -> bool:
        """Whether its instances run on the deployment host itself, so that no other host can manage them."""
        return self.deployment == "lab"

    @model_validator(mode="after")
    def _rights(self) -> Self:
        if self.deployment == "lab":
            self._refuse_references()
        elif not self.administrator:
            self._refuse_administration()
        if self.administrator and not self.hypervisors:
            raise PydanticCustomError(
                "hypervisors_missing",
                "is required where Strata administers the cloud",
                {"key": "hypervisors", "fix": "list at least one hypervisor"},
            )
        return self

    @model_validator(mode="after")
    def _zones(self) -> Self:
        zone = next((i.availability_zone for i in self.instances if i.availability_zone is not None), None)
        if zone is not None and self.deployment != "existing":
            raise PydanticCustomError(
                "own_zone",
                "have the availability zone {zone}, and a cloud that Strata deploys has one zone",
                {"key": "instances", "zone": zone, "fix": "remove availability_zone"},
            )
        return self

    @model_validator(mode="after")
    def _floating_ips(self) -> Self:
        outside = next((i.name for i in self.instances if i.floating_ip), None)
        if outside is not None and self.external_network is None:
            raise PydanticCustomError(
                "external_missing",
                "is required: {instance} has a floating IP",
                {
                    "key": "external_network",
                    "instance": outside,
                    "fix": "name the network (openstack network list --external)",
                },
            )
        return self

    def _refuse_references(self) -> None:
        if any(network.ipv6 for network in self.networks):
            raise PydanticCustomError(
                "lab_ipv6",
                "have a section ipv6, and the network agent of a lab gives IPv4 addresses only",
                {"key": "networks", "fix": "remove ipv6"},
            )
        if not self.administrator:
            raise PydanticCustomError(
                "lab_administrator",
                "is true in a lab, which Strata administers",
                {"key": "administrator", "fix": "remove the line"},
            )
        existing = (("project", (self.project,)), ("networks", self.networks), ("flavors", self.flavors))
        for key, entries in existing:
            if any(entry.existing for entry in entries):
                raise PydanticCustomError(
                    "lab_existing",
                    "has existing: true, and a lab starts empty",
                    {"key": key, "fix": "remove existing: true"},
                )
        if any(image.id or image.checksum for image in self.images):
            raise PydanticCustomError(
                "lab_image",
                "has an id or a checksum, and a lab builds its images",
                {"key": "images", "fix": "remove id and checksum"},
            )

    def _refuse_administration(self) -> None:
        if self.hypervisors:
            raise PydanticCustomError(
                "hypervisors_member",
                "is for clouds that Strata administers",
                {"key": "hypervisors", "fix": "remove the section, or administrator: true"},
            )
        made = [f.name for f in self.flavors if not f.existing]
        for key, names in (("project", [] if self.project.existing else [self.project.name]), ("flavors", made)):
            if names:
                raise PydanticCustomError(
                    "needs_administrator",
                    "has {name}, which only an administrator can create",
                    {"key": key, "name": names[0], "fix": "existing: true if the cloud has it, or administrator: true"},
                )
