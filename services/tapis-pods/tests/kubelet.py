"""A substitute for scheduler and kubelet beside a real API server: pods run, write a log and end."""

from __future__ import annotations

import base64
import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml

from strata.site.secrets import pki
from strata_bench.api_server import ApiServer
from strata_bench.https_server import in_background

NODE = "contract-node"
Object = dict[str, Any]


@dataclass
class Kubelet:
    """One node.

    Args:
        api: base URL of the API server.
        http: authorized session.
        ca: of the API server.
        states: by part of a pod's image: what its container does; a container of another runs.
        turn: held while pods are bound and ended; a test that holds it stops that.
        created: names of the pods that were ever bound, with their UIDs.
    """

    api: str
    http: requests.Session
    ca: Path
    states: dict[str, Object] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)
    created: list[tuple[str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Any:
        """Asks the API server; None for 404 and 409, which another's action brings."""
        answer = self.http.request(
            method, self.api + path, json=body, headers={"Content-Type": kind}, verify=str(self.ca), timeout=30
        )
        if answer.status_code in (404, 409):
            return None
        assert answer.ok, answer.text
        return answer.json()

    def work(self) -> None:
        """Until the end."""
        while not self.ended.wait(0.05):
            with self.turn:
                for pod in self.request("GET", "/api/v1/pods")["items"]:
                    self._serve(pod)

    def _serve(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            self.request("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        elif pod["spec"].get("schedulingGates"):
            return
        elif "nodeName" not in pod["spec"]:
            self.created.append((metadata["name"], metadata["uid"]))
            target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}}
            self.request("POST", f"{path}/binding", target | {"target": {"kind": "Node", "name": NODE}})
        else:
            status = self._status(pod)
            if pod["status"].get("phase") != status["phase"] or pod["status"].get("containerStatuses") is None:
                patch = "application/strategic-merge-patch+json"
                self.request("PATCH", f"{path}/status", {"status": status}, patch)

    def _status(self, pod: Object) -> Object:
        (container,) = pod["spec"]["containers"]
        chosen = next((state for part, state in self.states.items() if part in container["image"]), {})
        state = chosen.get("state", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        container_status = {"name": container["name"], "ready": "running" in state, "restartCount": 0, "state": state}
        container_status |= {"image": container["image"], "imageID": ""}
        return {
            "phase": chosen.get("phase", "Running"),
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [container_status],
        }


@contextlib.contextmanager
def running_kubelet(server: ApiServer, directory: Path) -> Iterator[Kubelet]:
    """A node with a kubelet's server of logs, until the end of the block."""
    content = yaml.safe_load(server.kubeconfig.read_text())
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {content['users'][0]['user']['token']}"
    cluster = content["clusters"][0]["cluster"]
    ca = directory / "ca.crt"
    ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    kubelet = Kubelet(cluster["server"], http, ca)
    with _log_server(directory) as port:
        kubelet.request("DELETE", f"/api/v1/nodes/{NODE}")
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        kubelet.request("POST", "/api/v1/nodes", node)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        patch = "application/strategic-merge-patch+json"
        kubelet.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, patch)
        thread = threading.Thread(target=kubelet.work, daemon=True)
        thread.start()
        try:
            yield kubelet
        finally:
            kubelet.ended.set()
            thread.join(60)


@contextlib.contextmanager
def _log_server(directory: Path) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, namespace, pod, container = self.path.partition("?")[0].split("/")
            body = f"hello from {namespace}/{pod}/{container}\n".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    authority, key = pki.create_authority("kubelet")
    certificate = pki.issue(authority, key, "kubelet", [], ["127.0.0.1"])
    file = directory / "kubelet.pem"
    file.write_text(certificate.certificate + certificate.private_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    with in_background(server):
        yield server.server_port
