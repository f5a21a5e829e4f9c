"""Fixtures: an issuer of the tests, and a service of the tests on a PostgreSQL of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from strata_bench.service_processes import Service, running
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.token_issuer import Issuer, running_issuer

StartExample = Callable[[Mapping[str, str]], AbstractContextManager[Service]]
RunExample = Callable[..., "subprocess.CompletedProcess[str]"]

REFRESH_SECONDS = 0.5
"""Least time between two questions of the service for the issuer's keys."""
CODE = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with running_issuer("example") as running:
        yield running


@pytest.fixture(scope="session")
def run_example() -> RunExample:
    """`run_example(environment, "migrate")` → the finished command."""

    def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(service_python("http")), "-m", "example", *arguments]
        return subprocess.run(
            command, env={**CODE, **environment}, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.fixture(scope="session")
def database(postgresql: PostgreSQL, run_example: RunExample) -> dict[str, str]:
    """Environment of a migrated database."""
    environment = postgresql.create_database("http_example", "EXAMPLE")
    done = run_example(environment, "migrate")
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="session")
def start_example(database: dict[str, str], issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> StartExample:
    """`with start_example(environment) as service:` on a free port, trusting the issuer of the tests."""

    def start(environment: Mapping[str, str]) -> AbstractContextManager[Service]:
        port = free_port()
        settings = {
            **CODE,
            **database,
            "EXAMPLE_ISSUER": issuer.url,
            "EXAMPLE_BIND_PORT": str(port),
            "EXAMPLE_METRICS_PORT": str(free_port()),
            "EXAMPLE_KEYS_REFRESH_SECONDS": str(REFRESH_SECONDS),
            **environment,
        }
        directory = tmp_path_factory.mktemp("example")
        return running(service_python("http"), ["-m", "example", "serve"], settings, port, directory)

    return start


@pytest.fixture(scope="session")
def metrics_url() -> str:
    """Where `example` shows its metrics."""
    return f"http://127.0.0.1:{free_port()}/metrics"


@pytest.fixture(scope="session")
def example(start_example: StartExample, metrics_url: str) -> Iterator[Service]:
    """The service."""
    port = metrics_url.rpartition(":")[2].removesuffix("/metrics")
    with start_example({"EXAMPLE_METRICS_PORT": port}) as service:
        yield service
