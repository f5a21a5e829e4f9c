"""Fixtures: a PostgreSQL, the services' environments, an issuer of the tests, a loaded model hub."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.site.paths import REPOSITORY
from strata_bench.login_issuer import LoginIssuer, running_login_issuer
from strata_bench.service_processes import Service, running
from strata_bench.services import PostgreSQL, ServiceCommands, free_port, service_commands, service_python

CATALOGUE = REPOSITORY / "inventories/lab/catalogue.json"
NAME = "ml-hub.lab.strata.test"
WEB_URL = f"https://{NAME}"
CLIENT_SECRET = "s3cret of the & client"
StartHub = Callable[[Mapping[str, str]], AbstractContextManager[Service]]


@pytest.fixture(scope="session")
def hub_python() -> Path:
    """Interpreter with ml_hub."""
    return service_python("ml-hub")


@pytest.fixture(scope="session")
def issuer() -> Iterator[LoginIssuer]:
    """An issuer with one key, and the client of the pages."""
    callback = f"{WEB_URL}/.login/callback"
    with running_login_issuer(LoginIssuer("ml-hub", "ml-hub-login", CLIENT_SECRET, callback)) as running:
        yield running


@pytest.fixture(scope="session")
def run_hub() -> ServiceCommands:
    """`run_hub(environment, "load", "--file", …)` → the finished command."""
    return service_commands("ml-hub")


@pytest.fixture(scope="session")
def start_hub(hub_python: Path, issuer: LoginIssuer, tmp_path_factory: pytest.TempPathFactory) -> StartHub:
    """`with start_hub(environment) as service:` on a free port, trusting the issuer of the tests."""

    def start(environment: Mapping[str, str]) -> AbstractContextManager[Service]:
        port, directory = free_port(), tmp_path_factory.mktemp("hub")
        settings = {
            **issuer.login_settings("ML_HUB", directory),
            "ML_HUB_WEB_URL": WEB_URL,
            "ML_HUB_BIND_PORT": str(port),
            "ML_HUB_METRICS_PORT": str(free_port()),
            **environment,
        }
        return running(hub_python, ["-m", "ml_hub", "serve"], settings, port, directory)

    return start


@pytest.fixture(scope="session")
def hub_environment(postgresql: PostgreSQL, hub_python: Path) -> dict[str, str]:
    """Of a database with the lab's catalogue, by commands of their own processes as a site runs them."""
    environment = postgresql.create_database("ml_hub", "ML_HUB")
    for arguments in (["migrate"], ["load", "--file", str(CATALOGUE)]):
        command = [str(hub_python), "-m", "ml_hub", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="session")
def metrics_url() -> str:
    """Where `hub` shows its metrics."""
    return f"http://127.0.0.1:{free_port()}/metrics"


@pytest.fixture(scope="session")
def hub(start_hub: StartHub, hub_environment: dict[str, str], metrics_url: str) -> Iterator[Service]:
    """The model hub with the lab's catalogue."""
    port = metrics_url.rpartition(":")[2].removesuffix("/metrics")
    with start_hub({**hub_environment, "ML_HUB_METRICS_PORT": port}) as service:
        yield service


def _listed(kind: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(CATALOGUE.read_text())[kind]
    return sorted(records, key=lambda r: (-r["downloads"], r["id"]))


@pytest.fixture(scope="session")
def catalogue() -> list[dict[str, Any]]:
    """The lab's models, most downloaded first."""
    return _listed("models")


@pytest.fixture(scope="session")
def datasets() -> list[dict[str, Any]]:
    """The lab's datasets, most downloaded first."""
    return _listed("datasets")


@pytest.fixture
def get(hub: Service, issuer: LoginIssuer) -> Callable[..., requests.Response]:
    """`get("/models", limit=3)` with a token."""

    def call(path: str, **parameters: Any) -> requests.Response:
        return requests.get(
            f"{hub.url}/v3/ml-hub{path}",
            params=parameters,
            headers={"Authorization": f"Bearer {issuer.token()}"},
            timeout=60,
        )

    return call
