"""A real JupyterHub with the real KubeSpawner, which records pods, and the real issuer of the pool's tokens."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from strata_bench.services import PostgreSQL, free_port, service_python
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.service import SERVICE

START_SECONDS = 300
SECRET = "sesame"
IMAGES = ("registry.example.org/ml:2", "registry.example.org/research/")
BIOLOGY = {"name": "biology", "quota": {"cpu": 2, "memory": "4 GiB"}, "group_id": 20002}
GROUPS = {
    "/tenants/research": ["ada", "bob", "carol", "both", "ann@example.org"],
    "/tenants/research/admins": ["ada"],
    "/tenants/research/students": ["carol"],
    "/tenants/biology": ["eve", "mallory", "both"],
    "/tenants/biology/admins": ["eve"],
}
PROFILES = [
    {"name": "standard", "memory": "1 GiB", "guaranteed_memory": "256 MiB"},
    {"name": "v100", "memory": "2 GiB", "accelerators": {"v100": 1}, "users": ["operator"]},
]


class Pool:
    """The issuer of tokens, without HTCondor: a token is the arguments of condor_token_create."""

    def __init__(self, directory: Path) -> None:
        program = directory / "condor_token_create"
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        file = HTCONDOR.folder / "src" / "strata_condor" / "tokens.py"
        spec = importlib.util.spec_from_file_location("strata_condor_tokens", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look it up
        spec.loader.exec_module(module)
        self._module = module
        self._issuer = module.Issuer(SECRET, ["research", "biology"], "lab", 600, (str(program),))
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/tokens"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answers requests."""
        server: ThreadingHTTPServer = self._module.server(self._issuer, self._port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


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
    """

    url: str
    operator: str
    directory: Path
    database: str
    server: PostgreSQL
    pool: Pool

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
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def container(self, user: str) -> dict[str, Any]:
        found: dict[str, Any] = self.pod(user)["spec"]["containers"][0]
        return found


@contextmanager
def started(values: dict[str, Any], directory: Path, postgresql: PostgreSQL, pool: Pool) -> Iterator[Hub]:
    """Runs a hub with values for the chart, on the database and with the pool."""
    name, token = "jupyterhub_hook", secrets.token_hex(16)
    postgresql.create_database(name, "HUB")
    address = f"{name}:{name}-password@localhost:{postgresql.port}/{name}?sslmode=require"
    url = f"http://127.0.0.1:{free_port()}"
    values["custom"]["metricsPort"] = free_port()
    values["custom"]["batch"]["url"] = pool.url
    given = {
        "values": values, "groups": GROUPS, "token": token, "url": url,
        "database": f"postgresql+psycopg2://{address}",
    }  # fmt: skip
    (directory / "hub.json").write_text(json.dumps(given))
    cluster = {"clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}], "users": []}
    context = {"contexts": [{"name": "none", "context": {"cluster": "none"}}], "current-context": "none"}
    (directory / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
    image = SERVICE.folder / "images" / "hub"
    python = service_python("jupyterhub/images/hub")
    environment = {
        **os.environ, "HUB_DIRECTORY": str(directory), "KUBECONFIG": str(directory / "kubeconfig"),
        "PYTHONPATH": str(image / "src"), "PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode"),
        "BATCH_TOKEN_SECRET": SECRET,
    }  # fmt: skip
    config = Path(__file__).parent / "hub" / "jupyterhub_config.py"
    command = [str(python), "-m", "jupyterhub", "--config", str(config)]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
    try:
        _wait(process, f"{url}/hub/health", directory / "log")
        yield Hub(f"{url}/hub", token, directory, name, postgresql, pool)
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(url, timeout=60).ok:
                return
        except requests.RequestException:
            time.sleep(0.2)
    raise AssertionError(log.read_text())
