"""169.254.169.254: passes the asking instance to nova's metadata API, as neutron's metadata agent does.

One server per network, on the network's gateway and reachable over its bridge only. Who asks follows from network and
source address, which port security vouches for; what the asker claims in headers is not passed on.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from strata_lab.network.model import Port

LOG = logging.getLogger(__name__)

ADDRESS = "169.254.169.254"
PROXY_PORT = 9697
"""Where the proxy listens on each network's gateway, as neutron's own does."""
NOVA_PORT = 8775
TIMEOUT = 20.0
LONGEST_BODY = 64 * 1024
PASSED_ON = ("Accept", "Content-Type", "X-Aws-Ec2-Metadata-Token", "User-Agent")
"""Headers of an instance that nova may see."""


def identity(port: Port, address: str, secret: str) -> dict[str, str]:
    """Headers by which nova knows the instance.

    Args:
        port: of the instance.
        address: that it asked from.
        secret: shared with nova.
    """
    signature = hmac.new(secret.encode(), port.device_id.encode(), hashlib.sha256).hexdigest()
    return {
        "X-Forwarded-For": address,
        "X-Instance-ID": port.device_id,
        "X-Tenant-ID": port.project_id,
        "X-Instance-ID-Signature": signature,
    }


@dataclass(frozen=True)
class Upstream:
    """nova's metadata API.

    Args:
        address: of the controller.
        secret: file with the shared secret.
        port: TCP port.
    """

    address: str
    secret: Path
    port: int = NOVA_PORT

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, str, bytes]:
        """Status, content type and body of nova's answer.

        Raises:
            OSError, http.client.HTTPException: it did not respond.
        """
        connection = http.client.HTTPConnection(self.address, self.port, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LONGEST_BODY:
            self._answer(413, "text/plain", b"too long\n")
            return
        self._forward(self.rfile.read(length))

    def _forward(self, body: bytes | None) -> None:
        address = self.client_address[0]
        port = self.server.find(address)
        if port is None:
            self._answer(404, "text/plain", b"no instance has this address\n")
            return
        headers = {name: value for name in PASSED_ON if (value := self.headers.get(name))}
        try:
            headers |= identity(port, address, self.server.upstream.secret.read_text().strip())
            self._answer(*self.server.upstream.ask(self.command, self.path, headers, body))
        except (OSError, http.client.HTTPException) as error:
            LOG.warning("nova's metadata API: %s", error)
            self._answer(503, "text/plain", b"the metadata service does not answer\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        LOG.debug(format, *arguments)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gateway: str, bridge: str, upstream: Upstream, find: Callable[[str], Port | None]) -> None:
        self.upstream, self.find, self._bridge = upstream, find, bridge
        super().__init__((gateway, PROXY_PORT), _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._bridge.encode())
        super().server_bind()


@dataclass(frozen=True)
class MetadataListener:
    """Where the service listens for a network's instances.

    Args:
        network_id: neutron's network.
        gateway: its address on the host.
        bridge: the network's bridge.
    """

    network_id: str
    gateway: str
    bridge: str


class MetadataProxies:
    """One server per network, started and ended as networks come and go.

    Args:
        upstream: nova.
        find: the port of a network that has an address.
    """

    def __init__(self, upstream: Upstream, find: Callable[[str, str], Port | None]) -> None:
        self._upstream, self._find = upstream, find
        self._servers: dict[MetadataListener, _Server] = {}

    def serve(self, listeners: set[MetadataListener]) -> None:
        """Runs a server for exactly these listeners; one that cannot bind yet is retried at the next call."""
        for listener in set(self._servers) - listeners:
            server = self._servers.pop(listener)
            server.shutdown()
            server.server_close()
        for listener in sorted(listeners - set(self._servers), key=lambda listener: listener.bridge):
            network = listener.network_id

            def find(address: str, network: str = network) -> Port | None:
                return self._find(network, address)

            try:
                server = _Server(listener.gateway, listener.bridge, self._upstream, find)
            except OSError as error:
                # the bridge goes with its last instance
                LOG.warning("metadata at %s on %s: %s", listener.gateway, listener.bridge, error)
                continue
            self._servers[listener] = server
            threading.Thread(target=server.serve_forever, name=listener.bridge, daemon=True).start()

    @property
    def complete(self) -> set[MetadataListener]:
        """The listeners that are served."""
        return set(self._servers)
