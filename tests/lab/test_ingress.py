"""What a pod behind the ingress controller sees of its clients."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import time
from collections.abc import Iterator

import pytest
import requests

from strata.access.https import load_balancer_address
from strata.catalogue.needs.hostname import INGRESS_CLASS
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify.pods import Kubectl
from strata_bench.waiting import eventually

UPLOAD_SECONDS = 75
"""Longer than 60 s, which Traefik allows a request by default."""
ECHO = """
import hashlib, http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.tell(dict(self.headers.items()))
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.tell({"sha256": hashlib.sha256(body).hexdigest()})
    def tell(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("", 8080), Echo).serve_forever()
"""


class Slow:
    """A body of a byte per second.

    Args:
        body: what is sent.
    """

    def __init__(self, body: bytes) -> None:
        self._rest, self._length = body, len(body)

    def __len__(self) -> int:
        return self._length

    def read(self, _: int = -1) -> bytes:
        """The next byte, after a second."""
        if self._rest:
            time.sleep(1)
        sent, self._rest = self._rest[:1], self._rest[1:]
        return sent


@pytest.fixture(scope="module")
def echo(context: SiteContext, kubectl: Kubectl, images: ImageOutputs, http: requests.Session) -> Iterator[str]:
    """URL of a pod that answers with the headers of a request, or the digest of its body."""
    name = f"strata-ingress-{secrets.token_hex(3)}"
    host = f"{name}.{context.site.domain}"
    labels = {"app": "echo"}
    container = {
        "name": "echo",
        "image": str(images.images["pod-base"]),
        "command": ["python3", "-c", ECHO],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    backend = {"service": {"name": "echo", "port": {"number": 80}}}
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "echo", "labels": labels},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "echo"},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "echo"},
            "spec": {
                "ingressClassName": INGRESS_CLASS,
                "rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
            },
        },
    ]
    kubectl("create", "namespace", name)
    try:
        listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
        kubectl("create", "--namespace", name, "--filename", "-", input=json.dumps(listed))
        url = f"https://{host}/"
        eventually(lambda: http.get(url, timeout=30).status_code == 200, 240, "the pod answers")
        yield url
    finally:
        kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def test_pod_gets_the_address_of_the_client(context: SiteContext, echo: str, http: requests.Session) -> None:
    """Its real one, through load balancer and ingress controller; what a client states of itself is not believed."""
    with socket.create_connection((load_balancer_address(context), 443), timeout=30) as connection:
        own = connection.getsockname()[0]
    forged = {"X-Forwarded-For": "192.0.2.1", "X-Real-Ip": "192.0.2.1", "X-Forwarded-Host": "forged.example.org"}
    seen = http.get(echo, headers=forged, timeout=30).json()
    assert (seen["X-Forwarded-For"], seen["X-Real-Ip"], seen["X-Forwarded-Proto"]) == (own, own, "https")
    assert seen["X-Forwarded-Host"] == seen["Host"] == echo.removeprefix("https://").rstrip("/")


@pytest.mark.nightly
def test_upload_may_take_longer_than_a_minute(echo: str, http: requests.Session) -> None:
    """The body arrives whole."""
    body = secrets.token_bytes(UPLOAD_SECONDS)
    answer = http.put(echo, data=Slow(body), timeout=30)
    assert answer.json() == {"sha256": hashlib.sha256(body).hexdigest()}
