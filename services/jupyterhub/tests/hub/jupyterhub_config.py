"""Configuration of a hub for tests, with Strata's extraConfig and values; it writes the pods that it would create."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jupyterhub.proxy import Proxy
from kubernetes_asyncio.client import ApiClient
from kubespawner import KubeSpawner

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


class RecordingSpawner(KubeSpawner):
    """Writes the pod that it would create; where a test has written an address, the server of that address runs."""

    @property
    def _address(self) -> Path:
        return DIRECTORY / f"{self.user.name}.address"

    async def start(self) -> tuple[str, int]:
        if self._address.exists():
            return "127.0.0.1", int(self._address.read_text())
        await self.load_user_options()
        pod = self.modify_pod_hook(self, await self.get_pod_manifest())
        content = json.dumps(ApiClient().sanitize_for_serialization(pod))
        (DIRECTORY / f"{self.user.name}.pod").write_text(content)
        raise RuntimeError("the pod is recorded, not created")

    async def poll(self) -> int | None:
        return None if self._address.exists() else 0

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
    spawner_class=RecordingSpawner,
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
c.KubeSpawner.events_enabled = False
exec(VALUES["hub"]["extraConfig"]["strata"])  # noqa: S102  # extraConfig is Python by definition
c.JupyterHub.proxy_class = NoProxy
