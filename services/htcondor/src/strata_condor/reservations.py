"""Tenants' quotas: execution points run in another namespace, so each holds room by a pod that is never scheduled."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from strata_condor.kubernetes import RESERVATION, RESERVATION_PREFIX, Kubernetes, Unavailable
from strata_condor.plan import Shape

SUFFIXES = {"m": 1e-3, **{f"{unit}i": 1024.0**n for n, unit in enumerate("KMGT", 1)}}
SUFFIXES |= {unit: 1000.0**n for n, unit in enumerate("kMGT", 1)}
RESERVED_FOR = "strata.dev/reserved-for"
"""Annotation of a server's reservation: its user."""
TITLES = {"requests.cpu": "CPUs", "requests.memory": "memory", "limits.memory": "memory (limits)"}
ROUNDING = 1e-6
"""Of sums of thousandths."""


def quantity(value: object) -> float:
    """Kubernetes' quantity as a number."""
    number, suffix = re.fullmatch(r"([0-9.eE+-]*[0-9.])([A-Za-z]*)", str(value)).groups()  # type: ignore[union-attr]  # the API server checks them
    return float(number) * SUFFIXES.get(suffix, 1.0)


def needed_by(pod: Mapping[str, Any]) -> Mapping[str, float]:
    """What a quota counts for a pod, by its names: `requests.cpu`, `limits.memory`, `pods`."""
    needed: Counter[str] = Counter()
    needed["pods"] = 1
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        for name, amount in {**limits, **resources.get("requests", {})}.items():
            needed[f"requests.{name}"] += quantity(amount)
        if "memory" in limits:
            needed["limits.memory"] += quantity(limits["memory"])
    return needed


@dataclass
class Room:
    """What a tenant's quotas leave.

    Args:
        rest: by resource, as a quota names it; what is not in it has no limit.
    """

    rest: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, quotas: Iterable[Mapping[str, Any]]) -> Room:
        """Of the ResourceQuotas of a namespace, but for those of some pods only."""
        room = cls()
        for quota in quotas:
            if quota["spec"].get("scopeSelector") or quota["spec"].get("scopes"):
                continue
            used = quota.get("status", {}).get("used", {})
            for name, hard in quota["spec"].get("hard", {}).items():
                rest = quantity(hard) - quantity(used.get(name, 0))
                room.rest[name] = min(rest, room.rest.get(name, rest))
        return room

    def missing(self, needed: Mapping[str, float]) -> list[str]:
        """Resources of which too little is left."""
        return [name for name, need in needed.items() if need > self.rest.get(name, need) + ROUNDING]

    def take(self, needed: Mapping[str, float]) -> None:
        """Leaves less."""
        for name in self.rest.keys() & needed.keys():
            self.rest[name] -= needed[name]


@dataclass(frozen=True)
class Reservations:
    """Of the execution points.

    Args:
        kubernetes: where they are.
        template: of a reservation, without name, image and resources.
    """

    kubernetes: Kubernetes
    template: Mapping[str, Any]

    def points(self, tenant: str) -> set[str]:
        """Names of the tenant's execution points that have a reservation.

        Raises:
            Unavailable: the API server does not respond.
        """
        label = f"{RESERVATION}={self.template['metadata']['labels'][RESERVATION]}"
        pods = self.kubernetes.request("GET", f"{_pods(tenant)}?labelSelector={quote(label)}")["items"]
        return {pod["metadata"]["name"].removeprefix(RESERVATION_PREFIX) for pod in pods}

    def room(self, tenant: str) -> Room:
        """What the tenant's quotas leave.

        Raises:
            Unavailable: the API server does not respond.
        """
        return Room.of(self.kubernetes.request("GET", f"/api/v1/namespaces/{tenant}/resourcequotas")["items"])

    def create(self, shape: Shape, job: Mapping[str, Any]) -> bool:
        """Reserves what an execution point requests; False if the room was taken meanwhile.

        Raises:
            Unavailable: the API server refuses it.
        """
        try:
            self.kubernetes.request("POST", _pods(shape.tenant), self.manifest(shape, job))
        except Unavailable as error:
            if "exceeded quota" not in str(error):
                raise
            return False
        return True

    def release(self, tenant: str, point: str) -> None:
        """Deletes the reservation of an execution point; one that is gone is none.

        Raises:
            Unavailable: the API server refuses it.
        """
        self.kubernetes.request("DELETE", f"{_pods(tenant)}/{RESERVATION_PREFIX}{point}", absent=True)

    def needed(self, shape: Shape) -> Mapping[str, float]:
        """What a quota counts for an execution point, by its names: `requests.cpu`, `limits.memory`, `pods`."""
        return needed_by(self.manifest(shape, self.kubernetes.manifest(shape)))

    def pods(self, tenant: str) -> list[Mapping[str, Any]]:
        """What uses the tenant's quota: pods of its namespace that have not ended.

        Raises:
            Unavailable: the API server does not respond.
        """
        return [pod for pod in self.kubernetes.request("GET", _pods(tenant))["items"] if _counts(pod)]

    def waits_for(self, shape: Shape, room: Room, pods: Iterable[Mapping[str, Any]]) -> str:
        """Who uses what an execution point would need, without amounts: the text stays the same while these change.

        Args:
            shape: of the execution point.
            room: what is left.
            pods: as `pods` returns them.
        """
        parts = []
        for name in room.missing(self.needed(shape)):
            users = sorted({_user(pod) for pod in pods if needed_by(pod).get(name)})
            parts.append(
                f"{TITLES.get(name, name.removeprefix('requests.'))} are used by {', '.join(users) or 'nobody'}"
            )
        return f"the quota of tenant {shape.tenant}: {'; '.join(parts)}" if parts else ""

    def manifest(self, shape: Shape, job: Mapping[str, Any]) -> dict[str, Any]:
        """The reservation of an execution point: what its pod requests; limits are not counted for more.

        Args:
            shape: of the execution point.
            job: that makes it.
        """
        pod = copy.deepcopy(dict(self.template))
        pod["metadata"]["name"] = job["metadata"]["annotations"][RESERVATION]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        requests = dict(container["resources"]["requests"])
        if shape.cards and (kind := self.kubernetes.card["countedAs"]):
            requests[kind] = str(shape.cards)
        limits = {name: amount for name, amount in requests.items() if name != "cpu"}
        resources = {"requests": requests, "limits": limits}
        pod["spec"]["containers"][0] |= {"image": container["image"], "resources": resources}
        return pod


def _counts(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


def _user(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    kind = metadata.get("labels", {}).get(RESERVATION)
    if kind is None:
        return f"the pod {metadata['name']}"
    user = metadata.get("annotations", {}).get(RESERVED_FOR)
    return f"the server of {user}" if user else "batch jobs"


def _pods(tenant: str) -> str:
    return f"/api/v1/namespaces/{tenant}/pods"
