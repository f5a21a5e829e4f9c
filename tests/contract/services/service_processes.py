"""Runs the services and a PostgreSQL as processes, the way users of the tests meet them."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from strata.site.paths import REPOSITORY
from strata.site.secrets import pki

SERVICES = REPOSITORY / "services"
CATALOGUE = REPOSITORY / "inventories/lab/catalogue.json"
START_SECONDS = 30.0


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def service_python(service: str) -> Path:
    """Interpreter of a service's own locked environment, made where there is none."""
    project = SERVICES / service
    subprocess.run(
        ["uv", "sync", "--quiet", "--frozen", "--no-dev", "--inexact", "--project", str(project)],
        check=True,
        env={k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"},
    )
    return project / ".venv/bin/python"


@dataclass
class Service:
    """A running service.

    Args:
        url: where it answers.
        process: its process.
        log_file: its standard output and error.
    """

    url: str
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_file.read_text()


@contextlib.contextmanager
def running(
    python: Path, arguments: list[str], environment: Mapping[str, str], port: int, directory: Path
) -> Iterator[Service]:
    """Starts a service, waits for /healthz and ends it afterwards."""
    log_file = directory / f"{arguments[1]}-{port}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(python), *arguments], env={"PATH": os.environ["PATH"], **environment}, stdout=log, stderr=log
        )
    service = Service(f"http://127.0.0.1:{port}", process, log_file)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{' '.join(arguments)} does not start:\n{service.log}")
            with contextlib.suppress(requests.ConnectionError):
                if requests.get(f"{service.url}/healthz", timeout=2).status_code == 200:
                    break
            time.sleep(0.1)
        yield service
    finally:
        process.terminate()
        assert process.wait(timeout=30) is not None


@dataclass
class PostgreSQL:
    """A throw-away cluster with TLS on loopback; `postgres` owns its files where the tests run as root."""

    binaries: Path
    directory: Path
    certificate: pki.Certificate
    port: int = field(default_factory=free_port)

    def _run(self, *arguments: str) -> None:
        as_root = os.geteuid() == 0
        done = subprocess.run(
            [str(self.binaries / arguments[0]), *arguments[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            user="postgres" if as_root else None,
            group="postgres" if as_root else None,
            extra_groups=[] if as_root else None,
        )
        if done.returncode != 0:
            raise AssertionError(f"{arguments[0]}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Makes the cluster with an administrator `admin` and starts it."""
        for name, text in (
            ("server.crt", self.certificate.certificate),
            ("server.key", self.certificate.private_key),
            ("ca.pem", self.certificate.ca),
        ):
            file = self.directory / name
            file.write_text(text)
            file.chmod(0o600 if name == "server.key" else 0o644)
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = str(self.directory / "data")
        self._run("initdb", "-D", data, "-U", "admin", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
        hba = Path(data) / "pg_hba.conf"
        hba.write_text("local all admin trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory} "
            f"-c fsync=off -c ssl=on -c ssl_cert_file={self.directory}/server.crt "
            f"-c ssl_key_file={self.directory}/server.key"
        )
        self._run("pg_ctl", "-D", data, "-w", "-s", "-l", str(self.directory / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Ends it at once."""
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-w", "-s", "-m", "immediate", "stop")

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs SQL as the administrator over the socket."""
        done = subprocess.run(
            [
                str(self.binaries / "psql"), "-h", str(self.directory), "-p", str(self.port), "-U", "admin",
                "-d", database, "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def create_database(self, name: str) -> dict[str, str]:
        """A new database with an owner; returns the service's environment for it."""
        self.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{name}-password'")
        self.sql(f"CREATE DATABASE {name} OWNER {name}")
        return {
            "ML_HUB_DATABASE_HOST": "localhost",
            "ML_HUB_DATABASE_PORT": str(self.port),
            "ML_HUB_DATABASE_NAME": name,
            "ML_HUB_DATABASE_USER": name,
            "ML_HUB_DATABASE_PASSWORD": f"{name}-password",
            "ML_HUB_DATABASE_CA_FILE": str(self.directory / "ca.pem"),
        }


def find_postgresql() -> Path | None:
    """Directory with initdb and pg_ctl of the newest PostgreSQL here."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(re.sub(r"\D", "", p.parts[-3]) or 0)
    )
    if debian:
        return debian[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


@contextlib.contextmanager
def postgresql_cluster(binaries: Path) -> Iterator[PostgreSQL]:
    """A running cluster, gone afterwards."""
    authority, key = pki.create_authority("contract-tests")
    certificate = pki.issue(authority, key, "postgresql", ["localhost"], ["127.0.0.1"])
    directory = Path(tempfile.mkdtemp(prefix="strata-postgresql-"))
    directory.chmod(0o755)
    cluster = PostgreSQL(binaries, directory, certificate)
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def http_server(answer: Callable[[str], tuple[int, dict[str, str], Any]]) -> Iterator[str]:
    """A server on loopback that answers GET with what the function says: status, headers, JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Key:
    """A signing key of the tests."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.private = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def jwk(self) -> dict[str, Any]:
        """Its public part."""
        public: dict[str, Any] = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"kty": "EC", "crv": "P-256", "x": public["x"], "y": public["y"], "kid": self.key_id, "use": "sig"}


class Issuer:
    """An issuer whose keys and outages a test decides on."""

    def __init__(self) -> None:
        self.keys = [Key("first")]
        self.available = True
        self.fetches = 0
        self.url = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], Any]:
        """Discovery document and keys."""
        if not self.available:
            return 503, {}, {}
        if path == "/.well-known/openid-configuration":
            return 200, {}, {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            self.fetches += 1
            return 200, {}, {"keys": [key.jwk for key in self.keys]}
        return 404, {}, {}

    def token(self, key: Key | None = None, headers: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token that holds, but for the claims and headers given; one of None is left out."""
        key = key or self.keys[0]
        now = int(time.time())
        values = {"iss": self.url, "sub": "tester", "aud": "ml-hub", "iat": now, "exp": now + 300, **claims}
        kept = {name: value for name, value in values.items() if value is not None}
        named = {"kid": key.key_id, **(headers or {})}
        return jwt.encode(kept, key.private, "ES256", headers={k: v for k, v in named.items() if v is not None})
