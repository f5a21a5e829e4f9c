"""What a real JupyterHub has of a user who leaves the site."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from strata_bench.https_server import in_background
from strata_bench.services import service_python
from strata_bench.waiting import eventually
from strata_services.jupyterhub.service import SERVICE

from .running_hub import LEAVING_TOKEN, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")


PROGRAM = (
    "import json, os, sys; from strata_hub.leaving import Hub, leave; "
    "json.dump(leave(Hub(sys.argv[1], os.environ['TOKEN']), json.load(sys.stdin)), sys.stdout)"
)
"""With another URL and token than in the hub's pod."""


def leaves(hub: Hub, user: str, *, dry_run: bool = False) -> dict[str, Any]:
    """What the program answers, in the hub's own Python."""
    environment = os.environ | {"TOKEN": LEAVING_TOKEN, "PYTHONPATH": str(SERVICE.folder / "images" / "hub" / "src")}
    command = [str(service_python("jupyterhub/images/hub")), "-c", PROGRAM, f"{hub.url}/api"]
    request = json.dumps({"name": user, "tenants": ["research", "biology"], "dry_run": dry_run})
    done = subprocess.run(command, input=request, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def notebook() -> Iterator[int]:
    """Port of what the hub takes for a user's server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("X-JupyterHub-Version", "5")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with in_background(server):
        yield server.server_address[1]


def test_nothing_of_a_user_is_left(hub: Hub, notebook: int) -> None:
    """The server, tokens and the account; a dry run only names them; a second time there is nothing."""
    token = hub.token("dora")
    address = hub.directory / "dora.address"
    address.write_text(str(notebook))
    assert hub.call(hub.operator, "POST", "/api/users/dora/server", {"profile": "standard"}).status_code in (201, 202)

    def server() -> Any:
        return hub.call(hub.operator, "GET", "/api/users/dora").json()["servers"].get("")

    eventually(lambda: (server() or {}).get("ready"), 60, "the server of dora runs")
    named = leaves(hub, "dora", dry_run=True)
    assert named == {"ended": ["1 server", "sessions and API tokens"], "folders": {"homes": "dora"}}
    assert hub.call(token, "GET", "/api/user").status_code == 200
    assert leaves(hub, "dora") == named
    assert hub.call(token, "GET", "/api/user").status_code == 403
    assert hub.call(hub.operator, "GET", "/api/users/dora").status_code == 404
    assert leaves(hub, "dora") == {"ended": [], "folders": {"homes": "dora"}}
    address.unlink()
    assert hub.call(hub.token("dora"), "GET", "/api/user").json()["name"] == "dora", "the name can be given again"


def test_a_server_that_starts_does_not_come_up(hub: Hub) -> None:
    pod: Path = hub.directory / "ivan.kubernetes"
    pod.write_text(json.dumps({"metadata": {"name": "ivan"}, "status": {"phase": "Pending"}, "url": "none"}))
    hub.token("ivan")
    started = hub.call(hub.operator, "POST", "/api/users/ivan/server", {"profile": "standard"})
    assert started.status_code == 202, started.text
    assert leaves(hub, "ivan")["ended"][0] == "1 server"
    pod.unlink()
    assert hub.call(hub.operator, "GET", "/api/users/ivan").status_code == 404


@pytest.mark.parametrize("user", ["ada", "a_d-a", "trailing-", "a" * 32])
def test_the_folder_is_what_pods_mount(hub: Hub, user: str) -> None:
    """KubeSpawner's `{username}`, which the pod's name ends with."""
    assert f"jupyter-{leaves(hub, user, dry_run=True)['folders']['homes']}" == hub.pod(user)["metadata"]["name"]
