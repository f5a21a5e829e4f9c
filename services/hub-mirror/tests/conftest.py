"""Fixtures: a Hub of the tests, and the mirror of it on a PostgreSQL of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service, running
from strata_bench.services import PostgreSQL, free_port, locked_programs, service_commands, service_python
from strata_bench.token_issuer import Issuer, running_issuer

from .fake_hub import FakeHub

PROJECT = Path(__file__).parents[1]
TENANTS = ("bio", "hep")
MEBIBYTE = 2**20


@pytest.fixture(scope="session")
def python() -> Path:
    """Interpreter with hub_mirror."""
    return service_python("hub-mirror")


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with running_issuer("hub-mirror") as running:
        yield running


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """The Hub that is mirrored."""
    made = FakeHub()
    made.start()
    yield made
    if made.gate is not None:
        made.gate.set()
    made.stop()


@dataclass
class Mirror:
    """A running mirror.

    Args:
        service: its process.
        inside: URL of the port for pods.
        metrics_url: of its metrics.
        storage: directory of its cache.
        published: directory of tenants' files.
        issuer: of the site's tokens.
    """

    service: Service
    inside: str
    metrics_url: str
    storage: Path
    published: Path
    issuer: Issuer

    @property
    def outside(self) -> str:
        """URL of the port that needs a token."""
        return self.service.url

    def token(self, user: str = "ada", *tenants: str) -> str:
        """Of the site, for a member of the tenants."""
        groups = [f"/tenants/{name}" for name in tenants]
        return self.issuer.token(sub=user, preferred_username=user, groups=groups)

    def get(self, path: str, token: str | None = None, method: str = "GET", **options: Any) -> requests.Response:
        """A request to the port for pods."""
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        return requests.request(method, f"{self.inside}{path}", headers=headers, timeout=60, **options)

    def count(self, name: str) -> float:
        """Value of a metric, as it is now."""
        lines = requests.get(self.metrics_url, timeout=60).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name) and "_created" not in line)

    @property
    def cached(self) -> list[str]:
        """Names of the cached files."""
        return sorted(path.name for path in (self.storage / "blobs").glob("*/*"))


StartMirror = Callable[..., AbstractContextManager[Mirror]]


@pytest.fixture(scope="session")
def start_mirror(
    postgresql: PostgreSQL, python: Path, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> StartMirror:
    """`with start_mirror(hub, cache_bytes=…) as mirror:`; with `environment` of another one, on its database."""

    @contextlib.contextmanager
    def start(hub: FakeHub, storage: Path | None = None, **settings: object) -> Iterator[Mirror]:
        storage = storage or tmp_path_factory.mktemp("storage")
        marker = storage / "database.json"
        if not marker.exists():
            environment = postgresql.create_database(f"hub_mirror_{uuid.uuid4().hex[:8]}", "HUB_MIRROR")
            done = service_commands("hub-mirror")(environment, "migrate")
            assert done.returncode == 0, done.stderr
            marker.write_text(json.dumps(environment))
        (published := storage / "repositories").mkdir(exist_ok=True)
        port, inside, metrics = free_port(), free_port(), free_port()
        values = {
            "issuer": issuer.url,
            "audience": issuer.audience,
            "bind_port": port,
            "inside_port": inside,
            "metrics_port": metrics,
            "public_url": f"http://127.0.0.1:{port}",
            "inside_url": f"http://127.0.0.1:{inside}",
            "upstream": hub.url,
            "upstream_hosts": f"127.0.0.1:{hub.cdn_port}",
            "storage_path": storage,
            "published_path": published,
            "cache_bytes": 64 * MEBIBYTE,
            "tenants": ",".join(TENANTS),
            "tenant_bytes": 32 * MEBIBYTE,
            "revalidate_seconds": 0,
            "missing_seconds": 0,
            **settings,
        }
        named = {f"HUB_MIRROR_{name.upper()}": str(value) for name, value in values.items()}
        environment = {**json.loads(marker.read_text()), **named}
        arguments = ["-m", "hub_mirror", "serve"]
        with running(python, arguments, environment, port, tmp_path_factory.mktemp("mirror")) as service:
            urls = f"http://127.0.0.1:{inside}", f"http://127.0.0.1:{metrics}/metrics"
            yield Mirror(service, *urls, storage, published, issuer)

    return start


@pytest.fixture
def mirror(start_mirror: StartMirror, hub: FakeHub) -> Iterator[Mirror]:
    """A mirror of the Hub, which asks it each time."""
    with start_mirror(hub) as started:
        yield started


@dataclass
class Client:
    """huggingface_hub and transformers, unmodified, in processes of their own.

    Args:
        python: interpreter that has them.
        directory: of their caches, a new one for each name.
    """

    python: Path
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, endpoint: str, program: str, token: str = "", cache: str = "first") -> Any:
        """What the program leaves in `result`; an exception by its class's name and text.

        Args:
            endpoint: HF_ENDPOINT.
            program: Python.
            token: HF_TOKEN.
            cache: name of the client's own cache; what it has is not downloaded again.
        """
        script = (
            "import json, warnings\nwarnings.simplefilter('ignore')\nresult = None\ntry:\n"
            + "".join(f"    {line}\n" for line in program.splitlines())
            + "except Exception as error:\n    result = [type(error).__name__, str(error)]\n"
            + "print('RESULT' + json.dumps(result))\n"
        )
        environment: Mapping[str, str] = {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(self.directory / cache),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "PATH": "/usr/bin:/bin",
            **({"HF_TOKEN": token} if token else {}),
            **self.environment,
        }
        command = [str(self.python), "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert "RESULT" in done.stdout, done.stderr
        return json.loads(done.stdout.rpartition("RESULT")[2])


@pytest.fixture(scope="session")
def clients_python() -> Path:
    """Interpreter with the clients that pyproject.toml pins for the tests."""
    return locked_programs(PROJECT, "--no-dev", "--inexact", "--group", "clients") / "python"


@pytest.fixture
def client(clients_python: Path, tmp_path: Path) -> Client:
    """Clients with empty caches."""
    return Client(clients_python, tmp_path)
