"""The real gateway, proxy and controller on a real API server, with the charts' rights; a made-up hub and kubelet."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml

from strata_bench.api_server import ApiServer
from strata_bench.https_server import answer_json, in_background
from strata_bench.services import free_ports, service_python
from strata_bench.waiting import eventually
from strata_services.dask_gateway.needs import NAME, NAMESPACE
from strata_services.dask_gateway.service import SERVICE

HUB_TOKEN_VALUE = "token-of-the-gateway"
SECONDS = 300.0
"""For what a loaded machine does in a few."""
IMAGE = "registry.example.org/notebook@sha256:" + "1" * 64
GROUPS = {"ada": ["/tenants/research"], "eve": ["/tenants/biology"], "nobody": ["/others"]}


@dataclass
class Hub:
    """JupyterHub's API as far as the gateway uses it; the token of a user's server is the user's name.

    Args:
        started: users whose servers run, and since when.
        up: whether it responds.
        scope: whether tokens have the right to use the gateway.
    """

    started: dict[str, datetime] = field(default_factory=dict)
    up: bool = True
    scope: bool = True
    url: str = ""

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        token = authorization.removeprefix("token ")
        if not self.up:
            return 503, {}
        if path == "/hub/api/user":
            if token not in GROUPS:
                return 403, {}
            scopes = [f"access:services!service={NAME}"] if self.scope else ["self"]
            return 200, {"kind": "user", "name": token, "groups": GROUPS[token], "admin": False, "scopes": scopes}
        user = path.removeprefix("/hub/api/users/")
        if token != HUB_TOKEN_VALUE or user not in GROUPS:
            return 404, {}
        servers = {"": {"started": self.started[user].isoformat()}} if user in self.started else {}
        return 200, {"kind": "user", "name": user, "servers": servers}

    @contextmanager
    def running(self) -> Iterator[None]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer_json(self, *hub.answer(self.path, self.headers.get("Authorization", "")))

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/hub/api"
        with in_background(server):
            yield


def until(what: str, condition: Callable[[], Any], log: Path | None = None) -> Any:
    """What `condition` returns, once it is true."""
    value: Any = None

    def ask() -> Any:
        nonlocal value
        value = condition()
        return value

    try:
        eventually(ask, SECONDS, what, pause=0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:] if log else ''}") from None
    return value


@dataclass
class Gateway:
    """A running gateway and controller."""

    api: ApiServer
    hub: Hub
    directory: Path
    settings: dict[str, Any]
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings['port']}"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self, part: str) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.directory / "kubeconfig"),
            "DASK_GATEWAY_SETTINGS": str(self.directory / "settings.json"),
            "DASK_GATEWAY_HUB_TOKEN": str(self.directory / "hub-token"),
            "PYTHONPATH": str(SERVICE.folder / "src"),
        }
        python = service_python("dask-gateway")
        with self.log.open("a") as log:
            command = [str(python), "-m", "strata_dask", part]
            self._processes[part] = subprocess.Popen(
                command, env=environment, cwd=self.directory, stdout=log, stderr=log
            )

    def kill(self, part: str) -> None:
        process = self._processes.pop(part)
        process.kill()
        process.wait(30)

    def stop(self) -> None:
        for part in list(self._processes):
            self.kill(part)

    def call(self, user: str, method: str, path: str, body: Any = None) -> requests.Response:
        headers = {"Authorization": f"jupyterhub {user}"}
        return requests.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=30)

    def create(self, user: str, **options: Any) -> requests.Response:
        return self.call(user, "POST", "/clusters/", {"cluster_options": {"image": IMAGE, **options}})

    def objects(self, kind: str, namespace: str, cluster: str) -> list[dict[str, Any]]:
        """Of one cluster."""
        selector = f"--selector=gateway.dask.org/cluster={cluster}"
        listed = self.api.kubectl("get", kind, "--namespace", namespace, selector, "--output", "json")
        items: list[dict[str, Any]] = json.loads(listed)["items"]
        return items

    def running_cluster(self, user: str, **options: Any) -> tuple[str, str]:
        """Namespace and name of a cluster of the user whose scheduler runs, as the kubelet would report it."""
        response = self.create(user, **options)
        assert response.status_code == 201, response.text
        namespace, name = response.json()["name"].split(".")
        (pod,) = until("no scheduler", lambda: self.objects("pods", namespace, name), self.log)
        self.run_pod(namespace, pod)
        (service,) = until("no Service", lambda: self.objects("services", namespace, name), self.log)
        endpoints = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {key: service["metadata"][key] for key in ("name", "namespace", "labels")},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 8786}]}],
        }
        file = self.directory / f"{name}.json"
        file.write_text(json.dumps(endpoints))
        self.api.kubectl("apply", "--filename", str(file))
        until("it is not running", lambda: self.status(user, f"{namespace}.{name}") == "RUNNING", self.log)
        return namespace, name

    def run_pod(self, namespace: str, pod: dict[str, Any]) -> None:
        (container,) = (item["name"] for item in pod["spec"]["containers"])
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {
            "phase": "Running",
            "containerStatuses": [
                {"name": container, "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": state}
            ],
        }
        patch = ("--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}")
        self.api.kubectl("patch", "pod", pod["metadata"]["name"], "--namespace", namespace, *patch)

    def status(self, user: str, cluster: str) -> str:
        return str(self.call(user, "GET", f"/clusters/{cluster}").json().get("status"))

    def heartbeat(self, namespace: str, name: str, token: str, count: int) -> requests.Response:
        """As the scheduler sends it when the user scales."""
        message = {"count": count, "active_workers": [], "closing_workers": [], "closed_workers": []}
        return requests.post(
            f"{self.url}/api/v1/clusters/{namespace}.{name}/heartbeat",
            json=message,
            headers={"Authorization": f"token {token}"},
            timeout=30,
        )


def _apply(api: ApiServer, file: Path, objects: list[dict[str, Any]], namespace: str) -> None:
    file.write_text(yaml.safe_dump_all(objects))
    api.kubectl("apply", "--namespace", namespace, "--filename", str(file))


@contextmanager
def running(
    api: ApiServer, directory: Path, charts: dict[str, list[dict[str, Any]]], tenants: tuple[str, ...]
) -> Iterator[Gateway]:
    """Runs gateway and controller as their ServiceAccount, with the objects of the charts.

    Args:
        api: the API server.
        directory: for files.
        charts: objects of the releases of the gateway and `cluster-base`, and those for a tenant by its namespace.
        tenants: namespaces.
    """
    # other tests at this API server have them too, and a value cannot be changed
    classes = [item for item in charts["cluster-base"] if item["kind"] == "PriorityClass"]
    api.namespace(NAMESPACE.name)
    _apply(api, directory / "classes.yaml", classes, "default")
    _apply(api, directory / "gateway.yaml", charts[NAME], NAMESPACE.name)
    for tenant in tenants:
        api.namespace(tenant)
        api.kubectl("label", "--overwrite", "namespace", tenant, "pod-security.kubernetes.io/enforce=restricted")
        _apply(api, directory / f"{tenant}.yaml", charts[tenant], tenant)
    (written,) = (item for item in charts[NAME] if item["kind"] == "ConfigMap")
    settings = json.loads(written["data"]["settings.json"])
    hub, port = Hub(), free_ports(3)
    with hub.running():
        settings |= {"port": port, "url": f"http://127.0.0.1:{port}", "serverCheckSeconds": 0.2}
        settings["hub"]["url"] = hub.url
        (directory / "settings.json").write_text(json.dumps(settings))
        (directory / "hub-token").write_text(HUB_TOKEN_VALUE)
        content = yaml.safe_load(api.kubeconfig.read_text())
        token = api.kubectl("create", "token", NAME, "--namespace", NAMESPACE.name).strip()
        content["users"] = [{"name": "test", "user": {"token": token}}]
        (directory / "kubeconfig").write_text(yaml.safe_dump(content))
        gateway = Gateway(api, hub, directory, settings)
        try:
            gateway.start("gateway")
            gateway.start("controller")
            until("the gateway does not respond", lambda: _healthy(gateway), gateway.log)
            yield gateway
        finally:
            gateway.stop()


def _healthy(gateway: Gateway) -> bool:
    try:
        return requests.get(f"{gateway.url}/api/health", timeout=30).ok
    except requests.RequestException:
        return False


def now() -> datetime:
    """Of the hub's clock."""
    return datetime.now(UTC)
