"""Runs the services and a PostgreSQL as processes, the way users of the tests meet them."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from strata.site.paths import REPOSITORY
from strata_bench.waiting import responds

CATALOGUE = REPOSITORY / "inventories/lab/catalogue.json"


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
        responds(f"{service.url}/healthz", process, log_file)
        yield service
    finally:
        process.terminate()
        assert process.wait(timeout=30) is not None


@contextlib.contextmanager
def http_server(
    answer: Callable[[str], tuple[int, dict[str, str], Any]], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
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
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    # looks often whether it should end: tests have many
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
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
