"""Names of pods, by the real Traefik on a real API server: PostgreSQL, TCP, lists of addresses, pages of other pods."""

from __future__ import annotations

import os
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service as Declaration
from strata_bench.api_server import ApiServer
from strata_bench.service_processes import Service
from strata_bench.services import PostgreSQL, find_postgresql, postgresql_cluster
from strata_bench.traefik import Controller, running_controller
from strata_bench.waiting import eventually
from strata_services.tapis_pods.service import SERVICE

from .conftest import BESIDE_PODS, DOMAIN, StartReconciler
from .kubelet import Kubelet
from .test_pods_life import objects
from .users import IMAGE, SECONDS, User

SSL_REQUEST = struct.pack("!II", 8, 80877103)
ALLOWED, OTHER = "192.0.2.7", "198.51.100.9"


def own_address() -> str:
    """Of this machine, and not loopback, which no EndpointSlice may name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


ADDRESS = own_address()


@pytest.fixture(scope="module")
def controller(
    api_server: ApiServer, accounts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """Traefik, with a certificate for all names of pods."""
    assert accounts
    with running_controller(api_server, tmp_path_factory.mktemp("traefik"), f"*.{DOMAIN}") as running:
        yield running


def lead(server: ApiServer, namespace: str, service: str, port_name: str, port: int, directory: Path) -> None:
    """What the controllers of Kubernetes and the kubelet do: a Service leads to a server of this test."""
    labels = {"kubernetes.io/service-name": service}
    content = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{service}-{port_name}", "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
        "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
    }
    file = directory / "slice.yaml"
    file.write_text(yaml.safe_dump(content))
    server.kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(file))


Lead = Callable[[str, int, int], None]


@pytest.fixture
def lead_pod(api_server: ApiServer, tmp_path: Path) -> Iterator[Lead]:
    """`lead_pod("pg1", 5432, 20001)`: the pod's port is a server's of this test."""
    yield lambda pod, port, target: lead(api_server, "research", f"pods-{pod}", f"p{port}", target, tmp_path)
    api_server.kubectl("-n", "research", "delete", "endpointslices", "--all")


def connect(
    controller: Controller, name: str, source: str = "", starttls: bool = False, *protocols: str
) -> ssl.SSLSocket:
    """TLS to a name, with its certificate checked.

    Args:
        controller: Traefik.
        name: of the pod, without the domain.
        source: address of the client, as the load balancer reports it; empty: this machine's.
        starttls: as psql asks for TLS.
        protocols: of ALPN.
    """
    raw = socket.create_connection(("127.0.0.1", controller.port), timeout=SECONDS)
    if source:
        raw.sendall(f"PROXY TCP4 {source} 127.0.0.1 40000 443\r\n".encode())
    if starttls:
        raw.sendall(SSL_REQUEST)
        assert raw.recv(1) == b"S"
    context = ssl.create_default_context(cafile=str(controller.ca))
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(raw, server_hostname=f"{name}.{DOMAIN}")


def ask(controller: Controller, name: str, source: str = "", method: str = "GET", path: str = "/", *headers: str
        ) -> tuple[int, dict[str, str], str]:  # fmt: skip
    """Status, headers and body of an HTTP request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {name}.{DOMAIN}", "Connection: close", *headers, "", ""]
    with connect(controller, name, source) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = HTTPResponse(connection, method=method)
        answer.begin()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read().decode()


def echoed(controller: Controller, name: str, source: str = "") -> bytes:
    """What comes back of a line; nothing where the connection is ended."""
    try:
        with connect(controller, name, source) as connection:
            connection.sendall(b"a line\n")
            return connection.recv(100)
    except (ConnectionError, ssl.SSLError):
        return b""


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    """The port of a server at this machine's address."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


class Echo(socketserver.StreamRequestHandler):
    """Sends each line back."""

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line)


class Page(BaseHTTPRequestHandler):
    """Answers with the client's address, as Traefik reports it."""

    def do_GET(self) -> None:
        body = self.headers.get("X-Forwarded-For", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    """What runs in the pod: PostgreSQL without TLS."""
    binaries = find_postgresql()
    if binaries is None:
        pytest.skip("no PostgreSQL server here (Debian package postgresql)")
    with postgresql_cluster(binaries, ADDRESS) as cluster:
        cluster.create_database("owner", "POD")
        yield cluster


def psql(controller: Controller, database: PostgreSQL, name: str) -> subprocess.CompletedProcess[str]:
    """An unmodified psql, with the certificate checked."""
    host = f"host={name}.{DOMAIN} hostaddr=127.0.0.1 port={controller.port} user=owner dbname=owner connect_timeout=20"
    command = [str(database.binaries / "psql"), f"{host} sslmode=verify-full sslrootcert={controller.ca}"]
    return subprocess.run(
        [*command, "-XAt", "-c", "SELECT 6 * 7"],
        env={"PATH": os.environ["PATH"], "PGPASSWORD": "owner-password"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_psql_reaches_a_pod_by_name(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, controller: Controller, database: PostgreSQL,
    lead_pod: Lead,
) -> None:  # fmt: skip
    with start_reconciler():
        alice.create("pg1", networking={"default": {"protocol": "postgres", "port": 5432}})
        alice.wait("pg1", "AVAILABLE")
        lead_pod("pg1", 5432, database.port)
        eventually(lambda: psql(controller, database, "pg1").returncode == 0, SECONDS, "psql reaches the pod")
        done = psql(controller, database, "pg1")
        assert (done.stdout, done.stderr) == ("42\n", "")
        assert psql(controller, database, "pg2").returncode != 0

        # psql 17 names its protocol, with sslnegotiation=direct at once
        startup = b"user\0owner\0database\0owner\0\0"
        message = struct.pack("!II", 8 + len(startup), 196608) + startup
        for starttls in (True, False):
            with connect(controller, "pg1", "", starttls, "postgresql") as connection:
                assert connection.selected_alpn_protocol() == "postgresql"
                connection.sendall(message)
                assert connection.recv(1) == b"R", "PostgreSQL asks for the password"

        assert alice("GET", "/pg1/stop").status_code == 200
        alice.wait("pg1", "STOPPED")
        eventually(lambda: psql(controller, database, "pg1").returncode != 0, SECONDS, "the name leads to no pod")


def test_lists_of_addresses_let_in_whom_they_name(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, controller: Controller, lead_pod: Lead,
    api_server: ApiServer,
) -> None:  # fmt: skip
    allowed = ["192.0.2.0/24", "2001:db8::/32"]
    networking = {
        "default": {"port": 8000, "ip_allow_list": allowed},
        "open": {"port": 8001},
        "line": {"protocol": "tcp", "port": 7, "ip_allow_list": allowed},
        "all": {"protocol": "tcp", "port": 8},
    }
    pages = ThreadingHTTPServer((ADDRESS, 0), Page)
    echo = socketserver.ThreadingTCPServer((ADDRESS, 0), Echo)
    with serving(pages) as page_port, serving(echo) as echo_port, start_reconciler():
        alice.create("some", networking=networking)
        alice.wait("some", "AVAILABLE")
        for port, target in ((8000, page_port), (8001, page_port), (7, echo_port), (8, echo_port)):
            lead_pod("some", port, target)
        eventually(lambda: ask(controller, "some", ALLOWED)[0] == 200, SECONDS, "the page is there")
        eventually(lambda: echoed(controller, "some-line", ALLOWED) == b"a line\n", SECONDS, "the line is open")
        eventually(lambda: ask(controller, "some-open", OTHER)[0] == 200, SECONDS, "the open page is there")
        eventually(lambda: echoed(controller, "some-all", OTHER) == b"a line\n", SECONDS, "the open line is there")
        assert ask(controller, "some", ALLOWED)[2] == ALLOWED
        assert ask(controller, "some", OTHER)[0] == 403
        assert ask(controller, "some", OTHER, "GET", "/", f"X-Forwarded-For: {ALLOWED}")[0] == 403
        assert echoed(controller, "some-line", OTHER) == b""

        assert alice("PUT", "/some", {"networking": {"default": {"port": 8001}}}).status_code == 200
        assert ask(controller, "some", OTHER)[0] == 403, "a change is for the next start"
        assert alice("GET", "/some/restart").status_code == 200
        eventually(
            lambda: sorted(item["kind"] for item in objects(api_server, BESIDE_PODS)) == ["Ingress", "Service"],
            SECONDS,
            "nothing is left of the entries that are gone",
        )
        alice.wait("some", "AVAILABLE")
        eventually(lambda: ask(controller, "some", OTHER)[0] == 200, SECONDS, "the page is open to all")
        assert alice("DELETE", "/some").status_code == 200
        eventually(lambda: not objects(api_server, f"pods,{BESIDE_PODS}"), SECONDS, "nothing is left")


@pytest.fixture
def status_page(
    api_server: ApiServer,
    api: Service,
    lab: Path,
    objects_of: Callable[[Declaration[Any], Path], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """What the chart has for names that lead to no pod, with the API behind it."""
    kinds = ("IngressRoute", "Middleware", "Service")
    file = tmp_path / "page.yaml"
    file.write_text(yaml.safe_dump_all([item for item in objects_of(SERVICE, lab) if item["kind"] in kinds]))
    api_server.kubectl("-n", "strata-system", "apply", "--server-side", "--filename", str(file))
    lead(api_server, "strata-system", "tapis-pods", "http", int(api.url.rpartition(":")[2]), tmp_path)


def test_names_of_pods_that_do_not_run_show_their_state(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, controller: Controller, status_page: None,
    api: Service, lead_pod: Lead,
) -> None:  # fmt: skip
    waiting = {"reason": "ImagePullBackOff", "message": "needle-of-the-image"}
    kubelet.states["open/absent"] = {"phase": "Pending", "state": {"waiting": waiting}}
    eventually(lambda: "no pod" in ask(controller, "none")[2], SECONDS, "the page is there")
    with start_reconciler():
        alice.create("calm", status_requested="OFF", description="needle-of-the-description")
        alice.create("absent", image=IMAGE.replace("site/web", "open/absent"))
        alice.create("inner", networking={"default": {"protocol": "local_only", "port": 1}}, status_requested="OFF")
        alice.wait("absent", "ERROR")
        with kubelet.turn:
            alice.create("slow")
            alice.wait("slow", "CREATING")
            for name, text in (("calm", "is stopped"), ("absent", "has failed"), ("slow", "is starting")):
                # as long as Traefik has not followed yet
                eventually(lambda name=name, text=text: text in ask(controller, name)[2], SECONDS, f"{name} {text}")  # type: ignore[misc]
                assert ask(controller, name)[0] == 503
        for method, path in (("POST", "/"), ("GET", "/v3/pods"), ("DELETE", "/v3/pods/calm"), ("HEAD", "/a?b=c")):
            status, headers, body = ask(controller, "calm", "", method, path, f"X-Tapis-Token: {alice.token}")
            assert (status, headers["cache-control"]) == (503, "no-store")
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert "set-cookie" not in headers
            assert "needle" not in body
        for name in ("none", "inner", "calm-other", "CALM-other", "x" * 60, "a--b"):
            status, headers, body = ask(controller, name)
            assert (status, "<script" in body, name in body) == (404, False, False), body
        assert ask(controller, "CALM")[0] == 503
        alice.wait("slow", "AVAILABLE")
        with serving(ThreadingHTTPServer((ADDRESS, 0), Page)) as port:
            lead_pod("slow", 5000, port)
            eventually(lambda: ask(controller, "slow")[0] == 200, SECONDS, "its own page is there")
    assert not [line for line in api.log.splitlines() if "status-page" in line and '"audit"' in line]


def test_a_row_with_an_odd_name_or_port_breaks_no_other_pod(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, postgresql: PostgreSQL,
    environment: dict[str, str], api_server: ApiServer,
) -> None:  # fmt: skip
    odd = {
        "oddname": """{"a`) || Host(`b": {"protocol": "tcp", "port": 7, "ip_allow_list": []}}""",
        "oddhost": """{"-": {"protocol": "tcp", "port": 7, "ip_allow_list": []}}""",
        "oddport": """{"default": {"protocol": "http", "port": 99999, "ip_allow_list": []}}""",
        "oddlist": """{"default": {"protocol": "http", "port": 80, "ip_allow_list": ["x"]}}""",
    }
    for name, networking in odd.items():
        alice.create(name, status_requested="OFF")
        change = (
            f"UPDATE pods SET spec = jsonb_set(spec, '{{networking}}', '{networking}'), status_requested = 'ON', "  # noqa: S608
            f"status = 'REQUESTED' WHERE pod_id = '{name}'"
        )
        postgresql.sql(change, environment["PODS_DATABASE_NAME"])
    with start_reconciler():
        alice.create("zgood", networking={"default": {"protocol": "tcp", "port": 7}})
        alice.wait("zgood", "AVAILABLE")

        def states() -> set[str]:
            query = "SELECT DISTINCT status FROM pods WHERE pod_id LIKE 'odd%'"
            return set(postgresql.sql(query, environment["PODS_DATABASE_NAME"]).split())

        eventually(lambda: states() == {"ERROR"}, SECONDS, "the odd ones have failed")
        (route,) = objects(api_server, "ingressroutetcps")
        assert [rule["match"] for rule in route["spec"]["routes"]] == [f"HostSNI(`zgood.{DOMAIN}`)"]
        for name in odd:
            assert alice("DELETE", f"/{name}").status_code == 200
        eventually(lambda: states() == set(), SECONDS, "they can be deleted")
