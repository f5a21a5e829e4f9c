"""Users of the API, as tests have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from strata_bench.waiting import eventually

IMAGE = "registry.example.org:5000/site/web"
SECONDS = 60
"""In which a loaded machine does what takes it half a second."""


@dataclass(frozen=True)
class User:
    """Who calls the API.

    Args:
        url: of /v3/pods.
        token: of the issuer.
    """

    url: str
    token: str = field(repr=False)

    def __call__(self, method: str, path: str = "", body: Any = None) -> requests.Response:
        """Sends a request; the body is JSON."""
        return requests.request(method, self.url + path, json=body, headers={"X-Tapis-Token": self.token}, timeout=60)

    def create(self, pod_id: str, **fields: Any) -> dict[str, Any]:
        """A new pod."""
        answer = self("POST", "", {"pod_id": pod_id, "image": IMAGE, **fields})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    def pod(self, pod_id: str) -> dict[str, Any]:
        """A pod."""
        answer = self("GET", f"/{pod_id}")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    def wait(self, pod_id: str, status: str) -> dict[str, Any]:
        """A pod, once it has a status."""
        eventually(lambda: self.pod(pod_id)["status"] == status, SECONDS, f"{pod_id} is {status}")
        return self.pod(pod_id)


@dataclass(frozen=True)
class Owner(User):
    """Who has volumes and snapshots too; `url` is that of the gateway.

    Args:
        export: the directory of the service.
        tenant: of the owner.
    """

    export: Path = field(default=Path(), kw_only=True)
    tenant: str = field(default="", kw_only=True)

    def volume(self, name: str) -> Path:
        """A new volume; its directory, as pods see it."""
        answer = self("POST", "/volumes", {"volume_id": name})
        assert answer.status_code == 200, answer.text
        return self.export / self.tenant / "volumes" / name

    def upload(self, volume: str, path: str, content: bytes) -> requests.Response:
        """Writes a file."""
        headers = {"X-Tapis-Token": self.token}
        url = f"{self.url}/volumes/{volume}/upload/{path}"
        return requests.post(url, files={"file": content}, headers=headers, timeout=60)

    def snapshot(self, name: str, volume: str, path: str = "/", **fields: Any) -> dict[str, Any]:
        """A new snapshot, once it is made or cannot be."""
        body = {"snapshot_id": name, "source_volume_id": volume, "source_volume_path": path, **fields}
        answer = self("POST", "/snapshots", body)
        assert answer.status_code == 200, answer.text
        eventually(lambda: self._found(name)["status"] != "CREATING", SECONDS, f"snapshot {name} is made")
        return self._found(name)

    def _found(self, name: str) -> dict[str, Any]:
        result: dict[str, Any] = self("GET", f"/snapshots/{name}").json()["result"]
        return result
