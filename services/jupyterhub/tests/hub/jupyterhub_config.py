"""Configuration of a hub for tests, with Strata's extraConfig and values; it writes the pods that it would create."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jupyterhub.auth import DummyAuthenticator
from jupyterhub.proxy import Proxy
from jupyterhub.utils import exponential_backoff
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.rest import ApiException
from strata_hub.background import BackgroundTasks
from strata_hub.waiting import SiteSpawner
from traitlets import default

c = get_config()  # type: ignore[name-defined]  # noqa: F821  # JupyterHub defines it
DIRECTORY = Path(os.environ["HUB_DIRECTORY"])
GIVEN = json.loads((DIRECTORY / "hub.json").read_text())
VALUES = GIVEN["values"]


def get_config(key: str) -> Any:
    """As upstream's."""
    value = VALUES
    for step in key.split("."):
        value = value[step]
    return value


class RecordingSpawner(SiteSpawner):  # type: ignore[misc]
    """Writes the pod that it would create. With a file <user>.kubernetes, it waits for the pod in that file, as
    KubeSpawner does for the one in Kubernetes; with <user>.address, the server at that port of the machine runs. With
    <user>.refused, Kubernetes refuses the pod with that body; the file maximum has the most servers."""

    events = ({"type": "Normal", "message": "Started container notebook", "lastTimestamp": "now"},)
    events_enabled = True

    @default("start_timeout")
    def _default_start_timeout(self) -> int:
        return 12 if self.user.name == "impatient" else 60

    def _limit(self) -> int:
        file = DIRECTORY / "maximum"
        return int(file.read_text()) if file.exists() else 0

    async def _start_pod(self) -> Any:
        await self.load_user_options()
        pod = await self.modify_pod_hook(self, await self.get_pod_manifest())
        content = json.dumps(ApiClient().sanitize_for_serialization(pod))
        (DIRECTORY / f"{self.user.name}.pod").write_text(content)
        if self._address.exists():
            return "127.0.0.1", int(self._address.read_text())
        if (refused := DIRECTORY / f"{self.user.name}.refused").exists():
            error = ApiException(status=403)
            error.body = refused.read_text()
            raise error
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
        pods = {file.stem: json.loads(file.read_text()) for file in DIRECTORY.glob("*.kubernetes")}
        names = {name: self.pod_name if name == self.user.name else name for name in pods}
        return SimpleNamespace(pods={f"{self.namespace}/{names[name]}": pod for name, pod in pods.items()})

    async def _start_watching_events(self) -> None:
        """There is no Kubernetes."""

    async def poll(self) -> int | None:
        return None if self._address.exists() or self._kubernetes.exists() else 0

    async def stop(self, now: bool = False) -> None:  # noqa: ARG002  # as upstream's
        """Nothing was started, but has its room."""
        await self._release()


class AnyUser(BackgroundTasks, DummyAuthenticator):  # type: ignore[misc]
    """Without an issuer."""


class NoProxy(Proxy):
    """The tests reach the hub itself."""

    should_start = False

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None: ...

    async def delete_route(self, routespec: str) -> None: ...

    async def get_all_routes(self) -> dict[str, Any]:
        return {}


c.JupyterHub.update(
    db_url=GIVEN["database"],
    hub_bind_url=GIVEN["url"],
    bind_url=GIVEN["url"],
    cleanup_servers=False,
    services=[
        {"name": "operator", "api_token": GIVEN["token"]},
        *({"name": name, "api_token": token} for name, token in GIVEN["services"].items()),
    ],
    load_roles=[
        {"name": "operator", "services": ["operator"], "scopes": ["admin:users", "admin:servers", "tokens"]},
        *({"name": n, **r} for n, r in VALUES["hub"]["loadRoles"].items() if n != "verify"),
    ],
    custom_scopes=VALUES["hub"]["config"]["JupyterHub"]["custom_scopes"],
)
c.KubeSpawner.environment = VALUES["singleuser"]["extraEnv"]
c.KubeSpawner.image = "registry.example.org/notebook:1"
exec(VALUES["hub"]["extraConfig"]["strata"])  # noqa: S102  # extraConfig is Python by definition
c.JupyterHub.update(spawner_class=RecordingSpawner, proxy_class=NoProxy)
if at := GIVEN["issuer"]:
    c.Authenticator.update(VALUES["hub"]["config"]["Authenticator"])
    c.GenericOAuthenticator.update(VALUES["hub"]["config"]["GenericOAuthenticator"])
    c.GenericOAuthenticator.update(
        authorize_url=f"{at}/authorize",
        token_url=f"{at}/token",
        userdata_url=f"{at}/userinfo",
        oauth_callback_url=f"{GIVEN['url']}/hub/oauth_callback",
        client_secret="of-the-client",
        http_request_kwargs={},
    )
    c.CryptKeeper.keys = [GIVEN["token"]]
else:
    c.JupyterHub.authenticator_class = AnyUser
    c.JupyterHub.load_groups = {name: {"users": users} for name, users in GIVEN["groups"].items()}
    c.Authenticator.allow_all = True
