"""Configuration of a hub for tests, with Strata's extraConfig and values; it writes the pods that it would create."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jupyterhub.proxy import Proxy
from jupyterhub.utils import exponential_backoff
from kubernetes_asyncio.client import ApiClient
from strata_hub.spawner import DatasetSpawner

c = get_config()  # type: ignore[name-defined]  # noqa: F821  # JupyterHub defines it
DIRECTORY = Path(os.environ["HUB_DIRECTORY"])
GIVEN = json.loads((DIRECTORY / "hub.json").read_text())
VALUES = GIVEN["values"]


def get_config(key: str) -> Any:
    """As upstream's."""
    found = VALUES
    for step in key.split("."):
        found = found[step]
    return found


class RecordingSpawner(DatasetSpawner):  # type: ignore[misc]
    """Writes the pod that it would create. With a file <user>.kubernetes, it waits for the pod in that file, as
    KubeSpawner does for the one in Kubernetes; with <user>.address, the server at that port of the machine runs."""

    events = ({"type": "Normal", "message": "Started container notebook", "lastTimestamp": "now"},)
    events_enabled = True

    def start(self) -> Awaitable[Any]:
        self._start_future = asyncio.ensure_future(self._start())
        return self._start_future

    async def _start(self) -> Any:
        if self._address.exists():
            return "127.0.0.1", int(self._address.read_text())
        await self.load_user_options()
        pod = self.modify_pod_hook(self, await self.get_pod_manifest())
        content = json.dumps(ApiClient().sanitize_for_serialization(pod))
        (DIRECTORY / f"{self.user.name}.pod").write_text(content)
        if not self._kubernetes.exists():
            raise RuntimeError("the pod is recorded, not created")
        await exponential_backoff(lambda: self.is_pod_running(self._pod), "the pod does not run", timeout=120)
        return self._pod["url"]

    @property
    def _address(self) -> Path:
        return DIRECTORY / f"{self.user.name}.address"

    @property
    def _kubernetes(self) -> Path:
        return DIRECTORY / f"{self.user.name}.kubernetes"

    @property
    def _pod(self) -> Any:
        return json.loads(self._kubernetes.read_text())

    @property
    def pod_reflector(self) -> Any:
        return SimpleNamespace(pods={f"{self.namespace}/{self.pod_name}": self._pod})

    async def _start_watching_events(self) -> None:
        """There is no Kubernetes."""

    async def poll(self) -> int | None:
        return None if self._address.exists() or self._kubernetes.exists() else 0

    async def stop(self, now: bool = False) -> None:
        """Nothing was started."""


class NoProxy(Proxy):
    """The tests reach the hub itself."""

    should_start = False

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None: ...

    async def delete_route(self, routespec: str) -> None: ...

    async def get_all_routes(self) -> dict[str, Any]:
        return {}


c.JupyterHub.update(
    authenticator_class="jupyterhub.auth.DummyAuthenticator",
    db_url=GIVEN["database"],
    hub_bind_url=GIVEN["url"],
    bind_url=GIVEN["url"],
    cleanup_servers=False,
    load_groups={name: {"users": users} for name, users in GIVEN["groups"].items()},
    services=[{"name": "operator", "api_token": GIVEN["token"]}],
    load_roles=[
        {"name": "operator", "services": ["operator"], "scopes": ["admin:users", "admin:servers", "tokens"]},
        *({"name": n, **r} for n, r in VALUES["hub"]["loadRoles"].items() if "groups" in r),
    ],
    custom_scopes=VALUES["hub"]["config"]["JupyterHub"]["custom_scopes"],
)
c.Authenticator.allow_all = True
c.KubeSpawner.environment = VALUES["singleuser"]["extraEnv"]
c.KubeSpawner.image = "registry.example.org/notebook:1"
exec(VALUES["hub"]["extraConfig"]["strata"])  # noqa: S102  # extraConfig is Python by definition
c.JupyterHub.update(spawner_class=RecordingSpawner, proxy_class=NoProxy)
