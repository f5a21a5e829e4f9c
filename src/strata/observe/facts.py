"""What the layers answered, as plain values."""

from __future__ import annotations

import datetime

from pydantic import BaseModel, ConfigDict, Field

NOT_UP = "not up"
"""Reason of a layer that was never brought up."""
OBSERVE_SECONDS = 15.0
"""How long one part of a site may take to answer; what is down is named within 20 s. Less, and a host under load is
reported as down: with 14 processes that wait for two processors, kubectl took more than 7 s."""
READ_SECONDS = 8.0
"""After which a service that takes connections, but sends nothing, counts as silent."""


class Facts(BaseModel):
    """Base; `reason` is why there is nothing, None where the layer answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    reason: str | None = None


class ServerFacts(BaseModel):
    """One instance as nova shows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    status: str
    hypervisor: str | None
    """None where the credentials are not an administrator's."""


class CloudFacts(Facts):
    """What OpenStack answered."""

    servers: dict[str, ServerFacts] = Field(default_factory=dict)
    """By name."""
    hypervisors: dict[str, str] = Field(default_factory=dict)
    """Name to the state of its nova-compute, `up` or `down`."""
    flavors: frozenset[str] = frozenset()


class HostFacts(Facts):
    """What one host answered over SSH."""

    units: dict[str, str] = Field(default_factory=dict)
    """Name of a unit, as asked for, to its state."""
    devices: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """PCI address to vendor and device, four hexadecimal digits each."""
    assigned: dict[str, str] = Field(default_factory=dict)
    """Device, for our device plugin a PCI address, to the UID of the pod that the kubelet gave it to."""
    lacks: tuple[str, ...] = ()
    """What the host has none left of, in words."""
    problems: tuple[str, ...] = ()
    """What the host's roles report themselves."""
    silent: dict[str, str] = Field(default_factory=dict)
    """Unit, or port of a container, that does not respond, to where it was asked."""
    certificates: dict[str, datetime.datetime] = Field(default_factory=dict)
    """Unit, or port of a container, to the end of the certificate that it shows."""
    killed: tuple[str, ...] = ()
    """Units that the kernel ended a process of because memory ran out, once for each."""


class PodFacts(BaseModel):
    """One pod that has not ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    uid: str
    namespace: str
    name: str
    node: str | None
    ready: bool
    devices: dict[str, int] = Field(default_factory=dict)
    """Extended resource to the number of cards that it asked for."""


class WorkloadFacts(BaseModel):
    """A Deployment, StatefulSet or DaemonSet; or a pod without one, if it is in trouble."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: str
    """In lower case."""
    namespace: str
    name: str
    release: str | None
    """Namespace and name of its Helm release; None for one of the cluster's installer."""
    desired: int
    """Number of pods."""
    ready: int
    reason: str = ""
    """Why pods are not ready, or do not stay so."""
    command: str = ""
    """Shows more of it."""

    @property
    def state(self) -> str:
        """`2 ready`, or how many are and what is wrong with the others."""
        if self.ready >= self.desired and not self.reason:
            return self.wanted
        return f"{self.ready} of {self.desired} ready" + (f": {self.reason}" if self.reason else "")

    @property
    def wanted(self) -> str:
        """`2 ready`."""
        return f"{self.desired} ready"


class ClusterFacts(Facts):
    """What the API server answered."""

    nodes: dict[str, str] = Field(default_factory=dict)
    """Name to `Ready`, or to the reason why not."""
    cards: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Node to extended resource to allocatable cards."""
    unhealthy: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Node to extended resource to cards that its device plugin reports as broken; without nodes that have none."""
    pods: tuple[PodFacts, ...] = ()
    workloads: tuple[WorkloadFacts, ...] = ()


class PlatformFacts(Facts):
    """What helm answered."""

    releases: dict[str, str] = Field(default_factory=dict)
    """Namespace and name, as `strata-system/name`, to its status."""


class ServiceFacts(Facts):
    """What the services of the site answered, asked as their users do."""

    silent: dict[str, str] = Field(default_factory=dict)
    """URL, or part as a service calls it, to what came in place of an answer; without those that answer."""
    ends: datetime.datetime | None = None
    """Of the certificate that the ingress controller shows."""


class Observation(BaseModel):
    """All layers at one moment."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cloud: CloudFacts
    hosts: dict[str, HostFacts]
    cluster: ClusterFacts
    platform: PlatformFacts
    services: ServiceFacts
    seconds: float
    """How long it took to ask."""
