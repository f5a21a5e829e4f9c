"""A substitute of Kubernetes' API for programs that create and delete objects: namespaces' objects and their quotas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strata_bench.https_server import answer_json, in_background

UNITS = {"": 1.0, "m": 1e-3, "Mi": 2.0**20, "Gi": 2.0**30}
ENDED = ("Succeeded", "Failed")
Object = dict[str, Any]


def quantity(value: object) -> float:
    """Kubernetes' quantity as a number."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(value))
    assert match, value
    return float(match[1]) * UNITS[match[2]]


class KubernetesApi:
    """Objects of all namespaces, as the API server has them.

    Args:
        quotas: the hard limits of each namespace that has a quota, of the same name.
    """

    def __init__(self, quotas: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.quotas = {namespace: dict(hard) for namespace, hard in (quotas or {}).items()}
        self.objects: dict[tuple[str, str], dict[str, Object]] = {}
        """By name, of each namespace and resource."""
        self.refuse = False
        """Whether everything that is created is refused."""
        self.url = ""

    def of(self, namespace: str, resource: str) -> dict[str, Object]:
        """Objects by name."""
        return self.objects.setdefault((namespace, resource), {})

    def usage(self, namespace: str) -> dict[str, float]:
        """What the quota counts."""
        pods = [pod for pod in self.of(namespace, "pods").values() if pod["status"].get("phase") not in ENDED]
        totals = dict.fromkeys(self.quotas[namespace], 0.0)
        for pod in pods:
            for name, amount in counted(pod).items():
                if name in totals:
                    totals[name] += amount
        return totals

    def create(self, namespace: str, resource: str, given: Object) -> tuple[int, Object]:
        """Status and content of the answer."""
        name = given["metadata"]["name"]
        if name in self.of(namespace, resource):
            return 409, {"message": f'{resource} "{name}" already exists'}
        if self.refuse:
            return 403, {"message": f'{resource} "{name}" is forbidden'}
        if resource == "pods" and namespace in self.quotas:
            hard, used, needed = self.quotas[namespace], self.usage(namespace), counted(given)
            over = [key for key in hard if used[key] + needed.get(key, 0) > quantity(hard[key]) + 1e-6]
            if over:
                return 403, {"message": f'pods "{name}" is forbidden: exceeded quota: {namespace}, {", ".join(over)}'}
        given["metadata"] |= {"creationTimestamp": datetime.now(UTC).isoformat()}
        given.setdefault("status", {"phase": "Pending"} if resource == "pods" else {})
        self.of(namespace, resource)[name] = given
        return 201, given

    def listed(self, namespace: str, resource: str, selector: str) -> list[Object]:
        """Objects whose labels the selector matches."""
        if resource == "resourcequotas":
            hard = self.quotas.get(namespace)
            used = {name: str(amount) for name, amount in self.usage(namespace).items()} if hard else {}
            return [{"spec": {"hard": hard}, "status": {"used": used}}] if hard else []
        requirements = [requirement.partition("=") for requirement in selector.split(",") if requirement]
        return [
            item
            for item in self.of(namespace, resource).values()
            if all(
                key in (labels := item["metadata"].get("labels", {})) and (not equals or labels[key] == value)
                for key, equals, value in requirements
            )
        ]

    @contextmanager
    def running(self) -> Iterator[KubernetesApi]:
        """Answers requests at `url`."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                namespace, resource, _ = self.place()
                selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
                answer_json(self, 200, {"items": api.listed(namespace, resource, selector)})

            def do_POST(self) -> None:
                namespace, resource, _ = self.place()
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer_json(self, *api.create(namespace, resource, given))

            def do_DELETE(self) -> None:
                namespace, resource, name = self.place()
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gone = api.of(namespace, resource).pop(name, None)
                answer_json(self, 200 if gone else 404, gone or {"message": f'{resource} "{name}" not found'})

            def place(self) -> tuple[str, str, str]:
                _, _, rest = urlsplit(self.path).path.partition("/namespaces/")
                namespace, resource, name = [*rest.split("/"), ""][:3]
                return namespace, resource, name

            def log_message(self, *_: object) -> None: ...

        with in_background(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            yield self


def counted(pod: Mapping[str, Any]) -> dict[str, float]:
    """What a quota counts for a pod, by its names."""
    counts = {"pods": 1.0}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        for name, amount in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
            counts[f"requests.{name}"] = counts.get(f"requests.{name}", 0.0) + quantity(amount)
        if memory := resources.get("limits", {}).get("memory"):
            counts["limits.memory"] = counts.get("limits.memory", 0.0) + quantity(memory)
    return counts
