"""The metadata proxy: who asks is known from the address, whatever the asker states."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from strata_bench.https_server import answer_json, in_background
from strata_lab.network import metadata
from strata_lab.network.metadata import MetadataListener, MetadataProxies, Upstream
from strata_lab.network.model import Port

SECRET = "shared"
PORT = Port("port", "network", "fa:16:3e:00:00:01", ("127.0.0.1",), device_id="instance-1", project_id="project-1")


class Nova(BaseHTTPRequestHandler):
    """Answers with the headers that it got."""

    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        answer_json(self, 200, {"path": self.path, "headers": dict(self.headers)})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


@pytest.fixture
def nova() -> Iterator[ThreadingHTTPServer]:
    with in_background(ThreadingHTTPServer(("127.0.0.1", 0), Nova)) as server:
        yield server


@pytest.fixture
def url(nova: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A proxy on the loopback interface, in front of `nova`."""
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.setattr(metadata._Server, "server_bind", ThreadingHTTPServer.server_bind)  # root alone may bind to lo
    monkeypatch.setattr(metadata, "PROXY_PORT", 0)
    known = {("network", "127.0.0.1"): PORT}
    upstream = Upstream("127.0.0.1", tmp_path / "secret", nova.server_address[1])
    proxies = MetadataProxies(upstream, lambda network, address: known.get((network, address)))
    listeners = {MetadataListener(network, "127.0.0.1", network) for network in ("network", "other")}
    proxies.serve(listeners)
    assert proxies.complete == listeners
    ports = {listener.network_id: server.server_address[1] for listener, server in proxies._servers.items()}
    yield f"http://127.0.0.1:{ports['network']} http://127.0.0.1:{ports['other']}"
    proxies.serve(set())
    assert not proxies.complete


def test_signs_for_the_instance_that_has_the_address(url: str) -> None:
    claims = {"X-Instance-ID": "another", "X-Forwarded-For": "10.0.0.9", "X-Tenant-ID": "another", "Accept": "text/*"}
    with urllib.request.urlopen(urllib.request.Request(url.split()[0] + "/latest", headers=claims)) as answer:  # noqa: S310
        got = json.load(answer)
    assert got["path"] == "/latest"
    headers = {name.lower(): value for name, value in got["headers"].items()}
    assert headers["x-instance-id"] == "instance-1"
    assert headers["x-tenant-id"] == "project-1"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["accept"] == "text/*"
    signature = hmac.new(SECRET.encode(), b"instance-1", hashlib.sha256).hexdigest()
    assert headers["x-instance-id-signature"] == signature


@pytest.mark.parametrize(("place", "path"), [(1, "/latest"), (0, "/missing")])
def test_unknown_is_not_found(url: str, place: int, path: str) -> None:
    """An address of another network, and what nova does not have."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.split()[place] + path)  # noqa: S310
    assert caught.value.code == 404


def test_long_bodies_are_refused(url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.split()[0] + "/password", data=b"x" * (metadata.LONGEST_BODY + 1))  # noqa: S310
    assert caught.value.code == 413


def test_without_nova_it_reports_it(url: str, nova: ThreadingHTTPServer) -> None:
    nova.shutdown()
    nova.server_close()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.split()[0] + "/latest")  # noqa: S310
    assert caught.value.code == 503
