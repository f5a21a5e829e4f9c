"""A Kubernetes API server with pods and nodes, as far as the collector asks: lists in pages, and watches."""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strata_bench.https_server import in_background

PAGE = 2
Object = dict[str, Any]


def pod(
    namespace: str,
    name: str,
    *,
    node: str | None = "worker-1",
    requests: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    scheduled: str = "2026-11-22T10:00:00Z",
    **spec: Any,
) -> Object:
    """A running pod as the API server of Kubernetes 1.35 returns it, without what the collector does not read."""
    container = {"name": "main", "image": "image", "resources": {"requests": requests or {}}}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}] if node else []
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{namespace}/{name}")),
            "creationTimestamp": "2026-11-22T09:59:59Z",
            **({"labels": labels} if labels else {}),
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": conditions,
            **({"startTime": "2026-11-22T10:00:01Z"} if node else {}),
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-11-22T10:00:02Z"}}}],
        },
    }


def ended(running: Object, at: str, phase: str = "Succeeded") -> Object:
    """The pod after its container ended."""
    done = copy.deepcopy(running)
    terminated = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-22T10:00:02Z", "finishedAt": at}
    done["status"] |= {"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
    return done


def node(name: str, cpu: str = "8", memory: str = "16Gi", **cards: str) -> Object:
    """A node."""
    extended = {key.replace("_", "/"): count for key, count in cards.items()}
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110", **extended}},
    }


class Cluster:
    """What the API server knows; `put` and `remove` are seen by watches."""

    def __init__(self) -> None:
        self.url = ""
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.events: list[tuple[int, str, Object]] = []
        self.version = 100
        self.oldest = 0
        """Watches from versions before this are refused as expired."""
        self.refused: int | None = None
        """Status of all answers, while it is set."""
        self.lists = self.watches = 0

    def put(self, *pods: Object) -> None:
        """Adds or changes pods."""
        for pod in pods:
            uid = pod["metadata"]["uid"]
            self._event("MODIFIED" if uid in self.pods else "ADDED", pod)
            self.pods[uid] = pod

    def remove(self, gone: Object) -> None:
        """Deletes a pod, as it was last given."""
        self._event("DELETED", gone)
        del self.pods[gone["metadata"]["uid"]]

    def expire(self) -> None:
        """Forgets all events: watches that are open end with an error, new ones from old versions are refused."""
        self.version += 1
        self.oldest = self.version

    def _event(self, kind: str, item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, kind, copy.deepcopy(item)))

    def page(self, path: str, start: int) -> Object:
        """One page of a list."""
        source = self.pods if path.endswith("/pods") else self.nodes
        items = list(source.values())
        following = str(start + PAGE) if start + PAGE < len(items) else ""
        metadata = {"resourceVersion": str(self.version), **({"continue": following} if following else {})}
        return {"kind": "List", "metadata": metadata, "items": items[start : start + PAGE]}

    def watch(self, version: int, seconds: float) -> Iterator[Object]:
        """Events after a version, for a time; a bookmark at the end."""
        self.watches += 1
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if version < self.oldest:
                yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
                return
            for number, kind, item in [event for event in self.events if event[0] > version]:
                yield {"type": kind, "object": item}
                version = number
            time.sleep(0.02)
        bookmark = {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}
        yield {"type": "BOOKMARK", "object": bookmark}


@contextmanager
def serving(cluster: Cluster) -> Iterator[None]:
    """Serves the API on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with suppress(ConnectionError):  # the tests kill collectors
                self._serve()

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if cluster.refused is not None:
                self._answer(cluster.refused, {"kind": "Status", "message": "refused by the test"})
            elif fields.get("watch") == "true":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in cluster.watch(int(fields["resourceVersion"]), float(fields["timeoutSeconds"])):
                    line = json.dumps(event).encode() + b"\n"
                    # in two pieces, as networks do
                    for piece in (line[:7], line[7:]):
                        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            else:
                cluster.lists += parts.path.endswith("/pods")
                self._answer(200, cluster.page(parts.path, int(fields.get("continue") or 0)))

        def _answer(self, status: int, body: Object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cluster.url = f"http://127.0.0.1:{server.server_port}"
    with in_background(server):
        yield
