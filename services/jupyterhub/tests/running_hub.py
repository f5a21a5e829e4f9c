"""A real JupyterHub with the real KubeSpawner, which records pods, and the real issuer of the pool's tokens."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from strata_bench.https_server import in_background
from strata_bench.kubernetes_api import KubernetesApi
from strata_bench.module_file import load_module
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.waiting import responds
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.needs import LEAVING_SERVICE
from strata_services.jupyterhub.service import SERVICE

from .issuer import Issuer

START_SECONDS = 300
SECRET = "sesame"
SERVICE_TOKEN, LEAVING_TOKEN = "token-of-dask-gateway", "token-of-leaving"
IMAGES = ("registry.example.org/ml:2", "registry.example.org/research/")
BIOLOGY = {"name": "biology", "quota": {"cpu": 2, "memory": "4 GiB"}, "group_id": 20003}
GROUPS = {
    "/tenants/research": ["ada", "bob", "carol", "both", "ann@example.org", "impatient"],
    "/tenants/research/admins": ["ada"],
    "/tenants/research/students": ["carol"],
    "/tenants/biology": ["eve", "mallory", "both"],
    "/tenants/biology/admins": ["eve"],
}
QUOTAS = {
    "research": {
        "requests.cpu": "8",
        "requests.memory": "16Gi",
        "limits.memory": "16Gi",
        "requests.nvidia.com/gpu": "1",
        "pods": "100",
    },
    "biology": {"requests.cpu": "2", "requests.memory": "4Gi", "requests.nvidia.com/gpu": "0", "pods": "100"},
}
"""Of the tenants' namespaces, as helm/tenant writes them."""
PROFILES = [
    {"name": "standard", "memory": "1 GiB", "guaranteed_memory": "256 MiB"},
    {"name": "v100", "memory": "2 GiB", "accelerators": {"v100": 1}, "users": ["operator"]},
]

ENDPOINTS = [
    {
        "name": "open-data",
        "url": "https://s3.example.org",
        "region": "eu-1",
        "buckets": ["sky"],
        "tenants": ["research"],
    },
    {"name": "genomes", "url": "https://s3.example.net", "buckets": ["genomes"], "tenants": ["biology"]},
]
"""S3 endpoints of datasets."""
ENDPOINT_SECRETS = [f"dataset_{name}_{kind}_key" for name in ("open_data", "genomes") for kind in ("access", "secret")]


def loopback() -> str:
    """An address of this machine that no other test uses, for servers whose port is fixed."""
    return f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.{secrets.randbelow(253) + 2}"


NFS, NFS_DOWN = loopback(), loopback()
FOLDERS = [
    {"name": "climate", "server": NFS, "path": "/exports/climate", "tenants": ["research"]},
    {"name": "archive", "server": NFS_DOWN, "path": "/exports/archive", "tenants": ["research"]},
    {"name": "genomes", "server": NFS, "path": "/exports/genomes", "tenants": ["biology"]},
    {"name": "reference", "path": "/data/reference"},
]
"""Folders on NFS of datasets."""


class Pool:
    """The issuer of tokens, without HTCondor: a token is the arguments of condor_token_create."""

    def __init__(self, directory: Path) -> None:
        program = directory / "condor_token_create"
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        module = load_module(HTCONDOR.folder / "src" / "strata_condor" / "tokens.py", "strata_condor_tokens")
        self._module = module
        self._program = str(program)
        self._port = free_port()
        self.removed: list[str] = []
        """Owners whose jobs were removed."""
        self.owners: set[str] = set()
        """Of jobs."""
        self.url = f"http://127.0.0.1:{self._port}/tokens"

    @contextmanager
    def running(self, lifetime: int = 600) -> Iterator[None]:
        """Answers requests.

        Args:
            lifetime: of a token, in seconds.
        """

        def remove(owner: str) -> int:
            self.removed.append(owner)
            self.owners.discard(owner)
            return 1

        tenants = ["research", "biology", "teaching"]
        issuer = self._module.Issuer(SECRET, tenants, "lab", lifetime, (self._program,), remove, lambda: self.owners)
        server: ThreadingHTTPServer = self._module.server(issuer, self._port)
        with in_background(server):
            yield


@dataclass(frozen=True)
class Hub:
    """A running hub.

    Args:
        url: of the hub itself, with /hub.
        operator: token of an administrator of the hub.
        directory: with the recorded pods.
        database: of the hub.
        server: that the database is on.
        pool: that jobs go to.
        kubernetes: with the tenants' quotas.
        command: that runs it.
        environment: of the command.
    """

    url: str
    operator: str
    directory: Path
    database: str
    server: PostgreSQL
    pool: Pool
    kubernetes: KubernetesApi
    command: Sequence[str]
    environment: Mapping[str, str]

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of JupyterHub, beside the running hub."""
        python, module, *options = self.command
        command, environment = [python, module, name, *options, *arguments], dict(self.environment)
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    def call(self, token: str | None, method: str, path: str, body: Any = None) -> requests.Response:
        headers = {"Authorization": f"token {token}"} if token else {}
        return requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=30)

    def token(self, user: str, **limits: Any) -> str:
        """A token of a user, as /hub/token would give it."""
        assert self.call(self.operator, "POST", f"/api/users/{user}").status_code in (201, 409)
        response = self.call(self.operator, "POST", f"/api/users/{user}/tokens", limits or None)
        assert response.status_code == 201, response.text
        return str(response.json()["token"])

    def clear(self) -> None:
        """Deletes configurations and datasets."""
        if "strata_configuration" in self.server.sql("SELECT tablename FROM pg_tables", self.database):
            self.server.sql("DELETE FROM strata_configuration", self.database)

    def put(self, user: str, path: str, body: Any) -> requests.Response:
        return self.call(self.token(user), "PUT", f"/api/tenants/{path}", body)

    def pod(self, user: str, profile: str = "standard") -> dict[str, Any]:
        """The pod of the user's next server."""
        file = self.directory / f"{user}.pod"
        file.unlink(missing_ok=True)
        self.token(user)
        self.call(self.operator, "POST", f"/api/users/{user}/server", {"profile": profile})
        content: dict[str, Any] = json.loads(file.read_text())
        return content

    def container(self, user: str) -> dict[str, Any]:
        spec: dict[str, Any] = self.pod(user)["spec"]["containers"][0]
        return spec


@contextmanager
def started(
    values: dict[str, Any],
    directory: Path,
    postgresql: PostgreSQL,
    pool: Pool,
    name: str = "jupyterhub_hook",
    issuer: Issuer | None = None,
) -> Iterator[Hub]:
    """Runs a hub with values for the chart, on a database of that name and with the pool. Without an issuer, its users
    are those of GROUPS, without a login."""
    token = secrets.token_hex(16)
    postgresql.create_database(name, "HUB")
    address = f"{name}:{name}-password@localhost:{postgresql.port}/{name}?sslmode=require"
    url = f"http://127.0.0.1:{free_port()}"
    values["custom"]["metricsPort"] = free_port()
    values["custom"]["batch"]["url"] = pool.url
    given = {
        "values": values, "groups": GROUPS, "token": token, "url": url, "issuer": issuer and issuer.url,
        "services": {"dask-gateway": SERVICE_TOKEN, LEAVING_SERVICE: LEAVING_TOKEN},
        "database": f"postgresql+psycopg2://{address}",
    }  # fmt: skip
    (directory / "hub.json").write_text(json.dumps(given))
    kubernetes = KubernetesApi(QUOTAS)
    context = {"contexts": [{"name": "none", "context": {"cluster": "none"}}], "current-context": "none"}
    image = SERVICE.folder / "images" / "hub"
    python = service_python("jupyterhub/images/hub")
    environment = {
        **os.environ, "HUB_DIRECTORY": str(directory), "KUBECONFIG": str(directory / "kubeconfig"),
        "PYTHONPATH": str(image / "src"), "PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode"),
        "BATCH_TOKEN_SECRET": SECRET,
    }  # fmt: skip
    config = Path(__file__).parent / "hub" / "jupyterhub_config.py"
    command = [str(python), "-mjupyterhub", "--config", str(config)]
    with kubernetes.running(), (directory / "log").open("w") as log:
        cluster = {"clusters": [{"name": "none", "cluster": {"server": kubernetes.url}}], "users": []}
        (directory / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
        try:
            responds(f"{url}/hub/health", process, directory / "log", seconds=START_SECONDS)
            yield Hub(f"{url}/hub", token, directory, name, postgresql, pool, kubernetes, command, environment)
        finally:
            process.terminate()
            process.wait(30)
