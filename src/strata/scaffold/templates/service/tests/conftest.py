"""Fixtures: an issuer of the tests, and the service on a PostgreSQL of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from strata_bench.service_processes import Service, running
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.token_issuer import Issuer, running_issuer

Send = Callable[..., requests.Response]


@pytest.fixture(scope="session")
def python() -> Path:
    """Interpreter with example_service."""
    return service_python("example-service")


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with running_issuer("example-service") as server:
        yield server


@pytest.fixture(scope="session")
def service(
    postgresql: PostgreSQL, python: Path, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service, with a migrated database."""
    environment = postgresql.create_database("example_service", "EXAMPLE_SERVICE")
    command = [str(python), "-m", "example_service", "migrate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    port = free_port()
    settings = {
        **environment,
        "EXAMPLE_SERVICE_ISSUER": issuer.url,
        "EXAMPLE_SERVICE_AUDIENCE": issuer.audience,
        "EXAMPLE_SERVICE_BIND_PORT": str(port),
        "EXAMPLE_SERVICE_METRICS_PORT": str(free_port()),
    }
    directory = tmp_path_factory.mktemp("service")
    with running(python, ["-m", "example_service", "serve"], settings, port, directory) as server:
        yield server


@pytest.fixture
def send(service: Service, issuer: Issuer) -> Send:
    """`send("GET", "/notes", "ada", "hep", "bio")`: as the user ada of the tenants hep and bio."""

    def call(method: str, path: str, user: str, *tenants: str, **options: object) -> requests.Response:
        token = issuer.token(sub=user, preferred_username=user, groups=[f"/tenants/{name}" for name in tenants])
        headers = {"Authorization": f"Bearer {token}"}
        return requests.request(method, f"{service.url}/v1{path}", headers=headers, timeout=60, **options)  # type: ignore[arg-type]

    return call
