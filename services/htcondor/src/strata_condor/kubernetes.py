"""Execution points as Kubernetes Jobs, from inside the cluster."""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from strata_condor.plan import Point, Shape

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
URL = "https://kubernetes.default.svc"
TENANT, SHAPE, IMAGE = "strata.dev/tenant", "strata.dev/shape", "strata.dev/job-image"
RESERVATION = "strata.dev/reservation"
"""Label of reservations, annotation of an execution point with the name of its own."""
RESERVATION_PREFIX = "reservation-"
OVERHEAD = 96
"""MiB of an execution point's own daemons."""
LONGEST_TENANT = 40
"""Characters of a tenant's name in the name of an execution point, whose pod's name is that of its host."""


class Unavailable(Exception):
    """The API server does not respond, or refuses; the message gives the reason."""


@dataclass
class Kubernetes:
    """The Jobs of one namespace.

    Args:
        namespace: of the execution points.
        template: the Job of one, as the chart writes it.
        card: what one with cards has: `resource`, `nodeSelector`, `tolerations`, `countedAs`; empty where the pool has
            none.
        millicpus: thousandths of a CPU that are reserved for each CPU of a job.
        images: that jobs run in, by name.
        url: of the API server.
        account: folder with the service account's token and CA; None sends no token.
        shared: folders of tenants, by tenant: `claim` and `group`.
    """

    namespace: str
    template: Mapping[str, Any]
    card: Mapping[str, Any] = field(default_factory=dict)
    millicpus: int = 1000
    images: Mapping[str, str] = field(default_factory=dict)
    url: str = URL
    account: Path | None = SERVICE_ACCOUNT
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        authority = None if self.account is None else str(self.account / "ca.crt")
        self._http = urllib3.PoolManager(ca_certs=authority, retries=False, timeout=urllib3.Timeout(5, read=30))

    @property
    def _path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def points(self) -> Iterator[Point]:
        """Execution points that have not ended; `busy` is not known here.

        Raises:
            Unavailable: the API server does not respond.
        """
        for job in self.request("GET", f"{self._path}?labelSelector={SHAPE}")["items"]:
            status, labels = job.get("status", {}), job["metadata"]["labels"]
            ended = any(
                c["type"] in ("Complete", "Failed") for c in status.get("conditions", []) if c["status"] == "True"
            )
            if not ended and "deletionTimestamp" not in job["metadata"]:
                cpus, memory, cards = map(int, labels[SHAPE].split("-"))
                shape = Shape(labels[TENANT], cpus, memory, cards, labels.get(IMAGE, ""))
                reserved = RESERVATION in job["metadata"].get("annotations", {})
                yield Point(job["metadata"]["name"], shape, bool(status.get("ready")), reserved=reserved)

    def create(self, job: Mapping[str, Any]) -> None:
        """Creates an execution point.

        Args:
            job: as `manifest` returns it.

        Raises:
            Unavailable: the API server refuses it.
        """
        self.request("POST", self._path, job)

    def delete(self, name: str) -> None:
        """Deletes an execution point with its pod; one that is gone is none.

        Raises:
            Unavailable: the API server refuses it.
        """
        self.request("DELETE", f"{self._path}/{name}?propagationPolicy=Background", absent=True)

    def manifest(self, shape: Shape) -> dict[str, Any]:
        """The Job of an execution point with a name of its own."""
        job = copy.deepcopy(dict(self.template))
        labels = {TENANT: shape.tenant, SHAPE: shape.label, IMAGE: shape.image}
        job["metadata"]["name"] = f"execute-{shape.tenant[:LONGEST_TENANT]}-{secrets.token_hex(4)}"
        job["metadata"].setdefault("labels", {}).update(labels)
        # those of an earlier release have none, and end by themselves
        job["metadata"].setdefault("annotations", {})[RESERVATION] = RESERVATION_PREFIX + job["metadata"]["name"]
        pod = job["spec"]["template"]
        pod["metadata"].setdefault("labels", {}).update(labels)
        (container,) = pod["spec"]["containers"]
        memory = f"{shape.memory + OVERHEAD}Mi"
        requests = {"cpu": f"{shape.cpus * self.millicpus}m", "memory": memory}
        limits = {"cpu": str(shape.cpus), "memory": memory}
        if shape.cards:
            requests[self.card["resource"]] = limits[self.card["resource"]] = str(shape.cards)
            pod["spec"]["nodeSelector"] = {**pod["spec"].get("nodeSelector", {}), **self.card["nodeSelector"]}
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), *self.card["tolerations"]]
        if folder := self.shared.get(shape.tenant):
            _mount(pod["spec"], shape.tenant, folder)
        container["resources"] = {"requests": requests, "limits": limits}
        container["image"] = self.images[shape.image]
        settings = {
            "NUM_CPUS": str(shape.cpus),
            "MEMORY": str(shape.memory),
            "STRATA_TENANT": shape.tenant,
            "STRATA_CARDS": str(shape.cards),
            "STRATA_IMAGE": shape.image,
            # the pod's own cards, which CUDA numbers from 0
            "MACHINE_RESOURCE_GPUs": " ".join(f"CUDA{index}" for index in range(shape.cards)),
        }
        container["env"] = [
            *container.get("env", []),
            *({"name": f"_CONDOR_{name}", "value": value} for name, value in settings.items() if value),
        ]
        return job

    def request(self, method: str, path: str, body: object = None, *, absent: bool = False) -> dict[str, Any]:
        """The API server's answer.

        Args:
            method: of HTTP.
            path: with the query.
            body: sent as JSON.
            absent: whether an object that is not there is no error.

        Raises:
            Unavailable: the API server does not respond, or refuses; the message gives the reason.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.account is not None:
            # read at each request, because the kubelet replaces it
            headers["Authorization"] = f"Bearer {(self.account / 'token').read_text().strip()}"
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._http.request(method, f"{self.url}{path}", body=data, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"{method} {path}: {error}") from error
        if answer.status >= 300 and not (absent and answer.status == 404):
            raise Unavailable(f"{method} {path}: {answer.status} {answer.data[:300].decode(errors='replace')}")
        content: dict[str, Any] = json.loads(answer.data or b"{}")
        return content


def _mount(spec: dict[str, Any], tenant: str, folder: Mapping[str, Any]) -> None:
    """The tenant's folder, for a job that is in the tenant's group."""
    claim = {"name": "shared", "persistentVolumeClaim": {"claimName": folder["claim"]}}
    spec["volumes"] = [*spec.get("volumes", []), claim]
    (container,), (programs,) = spec["containers"], spec["initContainers"]
    mount = {"name": "shared", "mountPath": f"/shared/{tenant}"}
    container["volumeMounts"] = [*container.get("volumeMounts", []), mount]
    programs["env"] = [{"name": "TENANT_GROUP", "value": str(folder["group"])}]
