"""The plan of a site, typed; `model_dump(mode="json")` is what `strata plan --json` prints."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PlanModel(BaseModel):
    """Base of the plan's parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProjectPlan(PlanModel):
    """The project and its quota; an existing one has its own."""

    name: str
    instances: int | None
    cores: int | None
    memory_mib: int | None


class NetworkPlan(PlanModel):
    """A network with its subnet."""

    name: str
    cidr: str
    gateway: str
    pool_start: str
    pool_end: str
    dns_servers: tuple[str, ...]
    existing: bool


class RouterPlan(PlanModel):
    """The router, and the network that it leads to; `cidr` where the external network is made too."""

    name: str
    external_network: str
    cidr: str | None
    networks: tuple[str, ...]


class SecurityGroupPlan(PlanModel):
    """A security group; `rules` reads "tcp 22 from 0.0.0.0/0"."""

    name: str
    rules: tuple[str, ...]


class ImagePlan(PlanModel):
    """An image; built and uploaded in a lab, expected in an existing cloud."""

    name: str
    distribution: str
    release: str
    uploaded: bool


class FlavorPlan(PlanModel):
    """A flavor with what the scheduler is asked for, or, of an existing one, what it must offer."""

    name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    extra_specs: dict[str, str]
    existing: bool


class AggregatePlan(PlanModel):
    """A host aggregate with its metadata."""

    name: str
    metadata: dict[str, str]
    hosts: tuple[str, ...]


class ServerGroupPlan(PlanModel):
    """A server group and its instances."""

    name: str
    policy: str
    instances: tuple[str, ...]


class VolumePlan(PlanModel):
    """A volume of cinder; `volume_type` is None for the cloud's default."""

    name: str
    size_gib: int
    volume_type: str | None
    instance: str
    mount_path: str
    """Where the instance mounts it; / for a boot volume."""


class InstancePlan(PlanModel):
    """An instance."""

    name: str
    flavor: str
    image: str
    network: str
    accelerators: dict[str, int]
    security_groups: tuple[str, ...]
    floating_ip: bool
    availability_zone: str | None
    """None for the cloud's choice."""


class CloudPlan(PlanModel):
    """The cloud layer."""

    deployment: str
    location: str
    credentials: str
    project: ProjectPlan
    key_pair: str
    networks: tuple[NetworkPlan, ...]
    router: RouterPlan | None
    security_groups: tuple[SecurityGroupPlan, ...]
    images: tuple[ImagePlan, ...]
    flavors: tuple[FlavorPlan, ...]
    aggregates: tuple[AggregatePlan, ...]
    server_groups: tuple[ServerGroupPlan, ...]
    instances: tuple[InstancePlan, ...]
    volumes: tuple[VolumePlan, ...]


class HostPlan(PlanModel):
    """A host and the roles that Ansible gives it."""

    name: str
    address: str | None
    """None for an instance, whose address neutron chooses."""
    roles: tuple[str, ...]
    institution: str | None = None
    zone: str | None = None


class HostsPlan(PlanModel):
    """The hosts layer."""

    hosts: tuple[HostPlan, ...]
    nfs_exports: dict[str, str]
    """Name to path."""
    databases: tuple[str, ...]


class NodePlan(PlanModel):
    """A node of the cluster."""

    name: str
    control_plane: bool
    labels: dict[str, str]
    taints: tuple[str, ...]
    accelerators: dict[str, int]


class ClusterPlan(PlanModel):
    """The cluster layer."""

    name: str
    installer: str
    datastore: str
    pod_network: str
    service_network: str
    nodes: tuple[NodePlan, ...]


class ReleasePlan(PlanModel):
    """A Helm release."""

    name: str
    chart: str
    namespace: str
    address: str | None
    """Where it answers, if from outside."""


class PlatformPlan(PlanModel):
    """The platform layer."""

    releases: tuple[ReleasePlan, ...]


class Plan(PlanModel):
    """All layers of a site; None for a layer that the site does not have."""

    site: str
    domain: str
    cloud: CloudPlan | None
    hosts: HostsPlan
    cluster: ClusterPlan | None
    platform: PlatformPlan | None
