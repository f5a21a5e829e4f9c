"""What accounting keeps of Kubernetes' pods and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

Object = Mapping[str, Any]
"""An object of Kubernetes' API."""

_FACTORS = {
    **{letter: Decimal(1000) ** power for power, letter in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P"], -3)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    "E": Decimal(10) ** 18,
}


def quantity(text: str) -> Decimal:
    """A quantity as Kubernetes writes it: `250m`, `1.5Gi`, `2e3`.

    Raises:
        ValueError: it is none.
    """
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :]
    try:
        return Decimal(number) * _FACTORS[suffix]
    except (ArithmeticError, KeyError):
        raise ValueError(f"{text!r} is not a quantity") from None


@dataclass(frozen=True)
class Resources:
    """CPUs, bytes of memory, cards, and the extended resource of the cards."""

    cpus: float
    memory_bytes: int
    cards: int
    card: str | None


@dataclass(frozen=True)
class PodRow:
    """A row of the table pod; without `ends` the pod runs."""

    uid: str
    tenant: str | None
    username: str | None
    kind: str
    namespace: str
    name: str
    node: str
    resources: Resources
    starts: datetime
    ends: datetime | None


@dataclass(frozen=True)
class Reader:
    """Reads pods and nodes of one site.

    Args:
        tenants: names, which are those of their namespaces.
        card_resources: extended resources that are cards.
    """

    tenants: frozenset[str]
    card_resources: frozenset[str]

    def node(self, node: Object) -> Resources:
        """What a node offers to pods."""
        return self._resources(_quantities(node.get("status", {}).get("allocatable", {})))

    def pod(self, pod: Object, *, gone_at: datetime | None = None) -> PodRow | None:
        """The row of a pod; None where it has no node yet, and so no resources.

        Args:
            pod: as the API server has it.
            gone_at: when it was deleted, for a pod that is no more.
        """
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
        if not spec.get("nodeName"):
            return None
        starts = _scheduled(status) or _time(status.get("startTime")) or _time(metadata["creationTimestamp"])
        assert starts is not None  # every object has a creationTimestamp
        ends = None
        if gone_at or status.get("phase") in ("Succeeded", "Failed"):
            ends = _last_container_end(status) or gone_at or _last_transition(status)
        namespace = metadata["namespace"]
        return PodRow(
            metadata["uid"],
            self._tenant(metadata),
            _user(metadata),
            _kind(metadata, spec),
            namespace,
            metadata["name"],
            spec["nodeName"],
            self._resources(_requests(spec)),
            starts,
            max(starts, ends) if ends else None,
        )

    def _tenant(self, metadata: Object) -> str | None:
        """The namespace decides; a label counts only in namespaces where no tenant can make pods."""
        namespace = metadata["namespace"]
        if namespace in self.tenants:
            return str(namespace)
        named = metadata.get("labels", {}).get("strata.dev/tenant")
        return str(named) if named in self.tenants else None

    def _resources(self, quantities: Mapping[str, Decimal]) -> Resources:
        cards = {name: int(count) for name, count in quantities.items() if name in self.card_resources and count}
        return Resources(
            float(quantities.get("cpu", 0)),
            int(quantities.get("memory", 0)),
            sum(cards.values()),
            ",".join(sorted(cards)) or None,
        )


def _user(metadata: Object) -> str | None:
    """As JupyterHub's spawner writes it, else the platform; an annotation, because names may be no values of labels."""
    annotations = metadata.get("annotations", {})
    user = annotations.get("hub.jupyter.org/username") or annotations.get("strata.dev/user")
    return str(user) if user else None


def _kind(metadata: Object, spec: Object) -> str:
    labels = metadata.get("labels", {})
    if labels.get("component") == "singleuser-server":
        return "notebook"
    if any(label.startswith("gateway.dask.org/") for label in labels):
        return "dask"
    return "batch" if spec.get("priorityClassName") == "batch" else "pod"


def _quantities(texts: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: quantity(str(text)) for name, text in texts.items()}


def _requests(spec: Object) -> dict[str, Decimal]:
    """What the scheduler reserves: all containers and sidecars, or an init container that is larger; and overhead."""
    running = _sum(_container_requests(c) for c in spec["containers"])
    peak = running
    sidecars: dict[str, Decimal] = {}
    for container in spec.get("initContainers", []):
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, own])
            own = sidecars
        else:
            own = _sum([sidecars, own])
        peak = {name: max(peak.get(name, Decimal()), own.get(name, Decimal())) for name in {*peak, *own}}
    running = _sum([running, sidecars])
    peak = {name: max(peak.get(name, Decimal()), running.get(name, Decimal())) for name in {*peak, *running}}
    return _sum([peak, _quantities(spec.get("overhead", {}))])


def _container_requests(container: Object) -> dict[str, Decimal]:
    # the API server fills in the requests of a container that has limits only
    return _quantities(container.get("resources", {}).get("requests", {}))


def _sum(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Decimal()) + value
    return total


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _scheduled(status: Object) -> datetime | None:
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return _time(condition.get("lastTransitionTime"))
    return None


def _last_container_end(status: Object) -> datetime | None:
    """When the last container ended; None where one has not, as far as the kubelet reported."""
    states = [s.get("state", {}) for s in status.get("containerStatuses", [])]
    if not states or not all("terminated" in state for state in states):
        return None
    times = [_time(state["terminated"].get("finishedAt")) for state in states]
    return max((time for time in times if time), default=None)


def _last_transition(status: Object) -> datetime | None:
    """The latest change of an ended pod's conditions: of an evicted one, for instance, which has no containers."""
    return max(_times(status), default=None)


def _times(status: Object) -> Iterator[datetime]:
    for text in [status.get("startTime"), *(c.get("lastTransitionTime") for c in status.get("conditions", []))]:
        if time := _time(text):
            yield time
