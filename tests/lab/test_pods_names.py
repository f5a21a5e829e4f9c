"""Names of pods from outside: psql and TLS by SNI, lists of addresses, pages at the names of other pods."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess

import pytest
import requests

from strata.access.https import load_balancer_address, site_session, trusted_authorities
from strata.site.context import SiteContext
from strata_bench.waiting import eventually
from strata_services.tapis_pods.service import SERVICE

from .test_pods import START_SECONDS, Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""
SERVER = r"""
import socketserver, struct, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body

READY = message(b"Z", b"I")

class Postgres(socketserver.StreamRequestHandler):
    # as much of PostgreSQL's protocol as a query of psql needs: no password, one row with 42
    def handle(self):
        length, version = struct.unpack("!II", self.rfile.read(8))
        assert version == 196608, "TLS has ended before"
        self.rfile.read(length - 8)
        parameters = message(b"S", b"server_version\0" + b"15\0") + message(b"S", b"client_encoding\0UTF8\0")
        self.wfile.write(message(b"R", struct.pack("!I", 0)) + parameters + READY)
        while (kind := self.rfile.read(1)) not in (b"", b"X"):
            self.rfile.read(struct.unpack("!I", self.rfile.read(4))[0] - 4)
            if kind == b"Q":
                column = struct.pack("!H", 1) + b"answer\0" + struct.pack("!IHIhIH", 0, 0, 25, -1, 0xFFFFFFFF, 0)
                row = struct.pack("!HI", 1, 2) + b"42"
                self.wfile.write(message(b"T", column) + message(b"D", row) + message(b"C", b"SELECT 1\0") + READY)

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.headers["X-Forwarded-For"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

socketserver.ThreadingTCPServer.allow_reuse_address = True
TCP = socketserver.ThreadingTCPServer
for server in (ThreadingHTTPServer(("", 8000), Page), ThreadingHTTPServer(("", 8001), Page),
               TCP(("", 5432), Postgres), TCP(("", 7000), Echo)):
    threading.Thread(target=server.serve_forever).start()
"""
START = f"""
networking = {{
    "default": {{"protocol": "http", "port": 8000, "ip_allow_list": [os.environ["OWN_ADDRESS"]]}},
    "closed": {{"protocol": "http", "port": 8001, "ip_allow_list": ["192.0.2.0/24"]}},
    "database": {{"protocol": "postgres", "port": 5432}},
    "line": {{"protocol": "tcp", "port": 7000}},
}}
resources = {{"cpu_request": 250, "cpu_limit": 1000, "mem_request": 256, "mem_limit": 256}}
command = ["python3", "-c", {SERVER!r}]
t.pods.create_pod(pod_id=web, image=image, resources=resources, networking=networking, command=command)
pod = wait(web, "AVAILABLE")
print(json.dumps({{key: getattr(pod.networking, key).url for key in networking}}))
"""
STOP = """
t.pods.stop_pod(pod_id=web)
wait(web, "STOPPED")
print("{}")
"""


def psql(name: str, address: str, ca: str) -> subprocess.CompletedProcess[str]:
    """An unmodified psql, with the certificate checked; the name leads to the load balancer, as in DNS."""
    target = f"host={name} hostaddr={address} port=443 user=ada dbname=ada connect_timeout=30"
    command = ["psql", f"{target} sslmode=verify-full sslrootcert={ca}", "-XAt", "-c", "SELECT 6 * 7"]
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def echoed(name: str, address: str, ca: str) -> bytes:
    """What comes back of a line; nothing where no pod is."""
    context = ssl.create_default_context(cafile=ca)
    try:
        with (
            socket.create_connection((address, 443), timeout=30) as raw,
            context.wrap_socket(raw, server_hostname=name) as connection,
        ):
            connection.sendall(b"a line\n")
            return connection.recv(100)
    except OSError:
        return b""


def own_address(address: str) -> str:
    """Of this machine, as the load balancer sees it."""
    with socket.create_connection((address, 443), timeout=30) as connection:
        return str(connection.getsockname()[0])


def test_names_lead_by_sni_let_in_whom_they_should_and_show_states(context: SiteContext, ada: Member) -> None:
    if shutil.which("psql") is None:
        pytest.skip("no psql here (Debian package postgresql-client)")
    address, ca = load_balancer_address(context), trusted_authorities(context)
    settings = SERVICE.of(context.site)
    assert isinstance(ca, str)
    assert settings is not None
    web, own = new_name("names"), own_address(address)
    names = ada.run(START, web, WEB=web, OWN_ADDRESS=own)
    with site_session(context) as http:

        def page(name: str) -> requests.Response:
            return http.get(f"https://{name}/", headers={"X-Forwarded-For": "192.0.2.7"}, timeout=30)

        eventually(lambda: page(names["default"]).status_code == 200, START_SECONDS, "the page is there")
        assert page(names["default"]).text == own, "the client's own address, whatever it says of itself"
        eventually(lambda: page(names["closed"]).status_code == 403, START_SECONDS, "other addresses are let in alone")
        eventually(lambda: psql(names["database"], address, ca).returncode == 0, START_SECONDS, "psql gets an answer")
        done = psql(names["database"], address, ca)
        assert (done.stdout, done.stderr) == ("42\n", "")
        eventually(lambda: echoed(names["line"], address, ca) == b"a line\n", START_SECONDS, "the line comes back")

        ada.run(STOP, web, WEB=web)
        eventually(lambda: "is stopped" in page(names["default"]).text, START_SECONDS, "the page shows the state")
        stopped = page(names["closed"])
        assert (stopped.status_code, "is stopped" in stopped.text) == (503, True)
        assert psql(names["database"], address, ca).returncode != 0
        assert b"a line" not in echoed(names["line"], address, ca)
        unknown = page(f"{new_name('none')}.{settings.hostname}.{context.site.domain}")
        assert (unknown.status_code, "no pod" in unknown.text) == (404, True)
