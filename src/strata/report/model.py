"""The report of a site, typed; `model_dump(mode="json")` is what `strata status --json` prints."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, computed_field

from strata.drift_model import DriftReport
from strata.layers import Layer
from strata.observe.status import ObjectStatus


class State(StrEnum):
    """How a part is. A part that was never brought up is planned, one that was and does not respond is down."""

    GOOD = "good"
    PARTIAL = "partial"
    DOWN = "down"
    PLANNED = "planned"


class ReportModel(BaseModel):
    """Base of the report's parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PodReport(ReportModel):
    """A pod that holds cards."""

    namespace: str
    name: str
    ready: bool


class CardReport(ReportModel):
    """One card.

    `address` is its PCI address where it is known; `node` the instance or machine that has it, None while it is free;
    `pod` the pod that it was given to.
    """

    kind: str
    description: str
    address: str | None
    node: str | None
    pod: PodReport | None
    state: State
    note: str = ""


class UnitReport(ReportModel):
    """A systemd unit that carries a role."""

    name: str
    state: str


class NodeReport(ReportModel):
    """An instance of the cloud, or a machine of its own."""

    name: str
    kind: str
    """`instance` or `machine`."""
    state: State
    address: str | None
    flavor: str | None
    roles: tuple[str, ...]
    cloud: str | None
    """State of the instance in OpenStack; None for a machine."""
    cluster: str | None
    """`Ready`, or why not; None for a host that is not a node."""
    pods: int
    """Pods on it that have not ended."""
    units: tuple[UnitReport, ...]
    cards: tuple[CardReport, ...]


class PlaceReport(ReportModel):
    """Where nodes are: a hypervisor, an institution, or the machines of the site."""

    name: str
    kind: str
    """`hypervisor`, `machines` or `not placed`."""
    detail: str
    state: State
    nodes: tuple[NodeReport, ...]
    free: tuple[CardReport, ...]
    """Its cards that no instance holds."""


class LayerReport(ReportModel):
    """One layer: how many of its objects are in the desired state."""

    layer: Layer
    what: str
    state: State
    healthy: int
    objects: int
    reason: str | None
    """Why it does not respond."""


class AddressReport(ReportModel):
    """Where something answers."""

    name: str
    address: str


class ToolReport(ReportModel):
    """A pinned tool; `source` is None where it is not on this machine yet."""

    name: str
    version: str
    source: str | None
    sha256: str | None


class ImageReport(ReportModel):
    """An image in the site's registry."""

    name: str
    repository: str
    digest: str


class StepTime(ReportModel):
    """A step of a run; `started` is seconds after the run's start, None where the record is older than that field."""

    name: str
    layer: str
    state: str
    started: float | None
    seconds: float
    changed: int


class RunTime(ReportModel):
    """One run of `strata up`."""

    ended: str
    seconds: float
    changed: int
    steps: tuple[StepTime, ...]


class CardLoad(ReportModel):
    """Use of one accelerator over the last day."""

    node: str
    address: str
    model: str
    utilization: float
    """Mean, between 0 and 1."""
    allocated: float | None
    """Share of the time in which a pod held it; None where it was not measured."""
    energy: float | None
    """Watt-hours; None where it was not measured."""
    simulated: bool


class AlertReport(ReportModel):
    """An alert that fires."""

    name: str
    severity: str
    about: str


class LoadReport(ReportModel):
    """Load of the site's nodes over the last day; memory in bytes, CPU in cores."""

    cores: float
    cpu_mean: float
    cpu_peak: float
    memory: float
    memory_mean: float
    memory_peak: float
    cards: tuple[CardLoad, ...]
    alerts: tuple[AlertReport, ...]


class UnknownLoad(ReportModel):
    """Load and alerts of a site whose Prometheus cannot be queried."""

    reason: str


class SiteReport(ReportModel):
    """All that is known of a site at one moment."""

    site: str
    domain: str
    file: str
    generated: str
    """ISO 8601."""
    seconds: float
    """How long it took to ask."""
    state: State
    layers: tuple[LayerReport, ...]
    places: tuple[PlaceReport, ...]
    objects: tuple[ObjectStatus, ...]
    remedy: str = ""
    """What repairs the unhealthy ones; empty when there are none."""
    notes: tuple[str, ...] = ()
    """What happened to the hosts and is over."""
    drift: DriftReport | None
    """None if it was not checked."""
    load: LoadReport | UnknownLoad | None = None
    """None if the site has no Prometheus, or it was not queried."""
    addresses: tuple[AddressReport, ...]
    tools: tuple[ToolReport, ...]
    images: tuple[ImageReport, ...]
    runs: tuple[RunTime, ...]
    """The newest first."""
    verified: str | None
    """When all checks last passed, ISO 8601."""

    @property
    def nodes(self) -> tuple[NodeReport, ...]:
        """Every instance and machine."""
        return tuple(node for place in self.places for node in place.nodes)

    @property
    def cards(self) -> tuple[CardReport, ...]:
        """Every card, the free ones too; not what a planned instance asks for, whose card is still a hypervisor's."""
        return tuple(
            card
            for place in self.places
            for card in (*(c for n in place.nodes for c in n.cards), *place.free)
            if place.kind != "not placed" or card.address is not None
        )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def healthy(self) -> bool:
        """Every object is in the desired state, and nothing has drifted; a layer that was not reachable may have."""
        return all(o.healthy for o in self.objects) and (self.drift is None or self.drift.clean)
