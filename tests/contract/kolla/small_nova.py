"""A nova in memory, as far as hypervisors are emptied: services, instances, migrations.

test_drain.py has nova's own schemas check what it was sent.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from strata_bench.https_server import in_background

MICROVERSION = "2.100"
POLLS = 2
"""How often a task is seen before it has ended."""


@dataclass
class Request:
    """What a client sent."""

    method: str
    path: str
    microversion: str
    query: dict[str, str]
    body: Any


@dataclass
class Instance:
    """An instance; `alias` is its flavor's extra spec for PCI devices."""

    name: str
    host: str
    status: str = "ACTIVE"
    alias: str = ""
    refused: bool = False
    """Whether nova finds no other hypervisor for it."""
    stays: bool = False
    """Whether its migrations fail."""
    task: str | None = None
    polls: int = 0
    then: dict[str, Any] = field(default_factory=dict)
    """What changes when the task has ended."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class SmallNova:
    """Services, instances and migrations of hypervisors that are all up and enabled.

    Args:
        hosts: names of the hypervisors.
    """

    def __init__(self, *hosts: str) -> None:
        self.services: dict[str, dict[str, Any]] = {
            host: {"host": host, "status": "enabled", "state": "up", "disabled_reason": None} for host in hosts
        }
        for service in self.services.values():
            service |= {"id": str(uuid.uuid4()), "binary": "nova-compute", "zone": "nova"}
        self.instances: list[Instance] = []
        self.migrations: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.emptied: Callable[[str], object] = lambda _host: None
        """Called with a hypervisor's name when its last instance has left."""
        self.url = ""

    def add(self, instance: Instance) -> Instance:
        """Adds an instance."""
        self.instances.append(instance)
        return instance

    def begin(self, instance: Instance, task: str, during: str, **then: Any) -> None:
        """Starts a task of an instance, with a status; `then` is what it leaves."""
        instance.task, instance.status, instance.polls, instance.then = task, during, POLLS, then

    @property
    def writes(self) -> list[tuple[str, Any]]:
        """Names or hosts that were written to, each with the body."""
        names = {instance.id: instance.name for instance in self.instances} | {
            s["id"]: s["host"] for s in self.services.values()
        }
        return [(names[r.path.split("/")[2]], r.body) for r in self.requests if r.method != "GET"]

    def _other(self, host: str) -> str:
        """Another hypervisor that takes instances, or the same."""
        free = [name for name, s in self.services.items() if (s["status"], s["state"]) == ("enabled", "up")]
        return next((name for name in free if name != host), host)

    def _shown(self, instance: Instance) -> dict[str, Any]:
        extra = {"pci_passthrough:alias": instance.alias} if instance.alias else {}
        return {
            "id": instance.id,
            "name": instance.name,
            "status": instance.status,
            "OS-EXT-STS:task_state": instance.task,
            "OS-EXT-SRV-ATTR:host": instance.host,
            "flavor": {"original_name": "m1", "vcpus": 1, "ram": 1, "disk": 1, "extra_specs": extra},
        }

    def _poll(self, instance: Instance) -> None:
        instance.polls -= 1
        if instance.task is not None and instance.polls <= 0:
            instance.task, left = None, instance.host
            for key, value in instance.then.items():
                setattr(instance, key, value)
            if instance.host != left and not any(other.host == left for other in self.instances):
                self.emptied(left)

    def _action(self, instance: Instance, body: dict[str, Any]) -> tuple[int, Any]:
        before, to = instance.status, instance.host if instance.stays else self._other(instance.host)
        if instance.refused:
            return 400, {"badRequest": {"code": 400, "message": "No valid host was found."}}
        if instance.task is not None:
            return 409, {"conflictingRequest": {"code": 409, "message": f"task_state {instance.task}"}}
        if "os-migrateLive" in body and before in ("ACTIVE", "PAUSED") and not instance.alias:
            self.begin(instance, "migrating", "MIGRATING", host=to, status=before)
        elif "migrate" in body and before in ("ACTIVE", "SHUTOFF"):
            self.begin(instance, "resize_prep", "RESIZE", host=to, status=before if instance.stays else "VERIFY_RESIZE")
        elif "confirmResize" in body and before == "VERIFY_RESIZE":
            self.begin(instance, "resize_confirming", "VERIFY_RESIZE", status="SHUTOFF")
        else:
            return 409, {"conflictingRequest": {"code": 409, "message": f"{list(body)} in {before}"}}
        return (204 if "confirmResize" in body else 202), None

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and content."""
        self.requests.append(request)
        match request.method, request.path.strip("/").split("/"):
            case "GET", [""]:
                version = {"id": "v2.1", "status": "CURRENT", "version": MICROVERSION, "min_version": "2.1"}
                return 200, {"version": version | {"links": [{"rel": "self", "href": self.url}]}}
            case "GET", ["os-services"]:
                return 200, {"services": list(self.services.values())}
            case "PUT", ["os-services", identifier]:
                service = next(service for service in self.services.values() if service["id"] == identifier)
                service |= {"disabled_reason": None, **request.body}
                return 200, {"service": service}
            case "GET", ["servers", "detail"]:
                shown = [
                    self._shown(instance) for instance in self.instances if instance.host == request.query.get("host")
                ]
                return 200, {"servers": shown}
            case "GET", ["servers", identifier]:
                for instance in self.instances:
                    if instance.id == identifier:
                        self._poll(instance)
                        return 200, {"server": self._shown(instance)}
            case "POST", ["servers", identifier, "action"]:
                return self._action(
                    next(instance for instance in self.instances if instance.id == identifier), request.body
                )
            case "GET", ["os-migrations"]:
                keys = ("source_compute", "status", "migration_type")
                return 200, {
                    "migrations": [m for m in self.migrations if all(m[key] == request.query[key] for key in keys)]
                }
        return 404, {"itemNotFound": {"code": 404, "message": request.path}}


@contextmanager
def serve(nova: SmallNova) -> Iterator[SmallNova]:
    """Serves it on a free port of the loopback interface, in `nova.url`."""

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            split = urlsplit(self.path)
            version = (self.headers.get("OpenStack-API-Version") or "compute 2.1").split()[-1]
            sent = Request(
                self.command, split.path, version, dict(parse_qsl(split.query)), json.loads(raw) if raw else None
            )
            status, answer = nova.answer(sent)
            text = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = _handle

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with in_background(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        nova.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield nova
