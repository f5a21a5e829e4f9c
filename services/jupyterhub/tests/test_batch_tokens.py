"""Tokens of the batch system in a real JupyterHub: whose they are, and what happens without the pool."""

from __future__ import annotations

import json
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from strata_bench.services import service_python
from strata_services.jupyterhub.needs import VERIFY_USER
from strata_services.jupyterhub.service import SERVICE

from .running_hub import SECRET, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
EXTENSION = """
import asyncio, logging, os, sys, strata_notebook
async def run():
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    kept = asyncio.create_task(strata_notebook.keep(os.environ, logging.getLogger("jupyter")))
    written = strata_notebook.Path(os.environ[strata_notebook.DIRECTORY], "token")
    while not kept.done() and not written.exists():
        print("", flush=True)
        await asyncio.sleep(0.05)
    print("ended" if kept.done() else "kept")
asyncio.run(run())
"""
"""What Jupyter's server does with the extension, until it has a token or none can be had."""


@pytest.fixture
def hub(running_hub: Hub) -> Iterator[Hub]:
    """The hub and its pool."""
    with running_hub.pool.running():
        yield running_hub


def server_token(hub: Hub, user: str) -> str:
    """What the hub gives to the user's server."""
    return hub.token(user, scopes=[f"access:servers!server={user}/", f"users:activity!user={user}"])


def request(hub: Hub, token: str | None, user: str, body: object = None) -> requests.Response:
    return hub.call(token, "POST", f"/api/users/{user}/batch-token", body)


@pytest.mark.parametrize(
    ("user", "identity"),
    [
        ("bob", "research.bob"),
        ("eve", "biology.eve"),
        ("both", "research.both"),
        (VERIFY_USER, f"research.{VERIFY_USER}"),
    ],
)
def test_a_servers_token_is_its_users(hub: Hub, user: str, identity: str) -> None:
    response = request(hub, server_token(hub, user), user, {"tenant": "biology", "user": "mallory"})
    assert response.status_code == 201, response.text
    issued = response.json()
    assert f"-identity {identity}@lab " in issued["token"]
    assert 0 < issued["expires"] - time.time() <= 600


def test_nobody_else_gets_a_users_token(hub: Hub) -> None:
    strangers = {
        "nobody": None,
        "a forged token": "0" * 32,
        "the pool's secret": SECRET,
        "a member's server": server_token(hub, "carol"),
        "the tenant's administrator": hub.token("ada"),
        "another tenant's server": server_token(hub, "mallory"),
        "an administrator of the hub": hub.operator,
        "a narrow token of the user": hub.token("bob", scopes=["read:users!user=bob"]),
    }
    for who, token in strangers.items():
        assert request(hub, token, "bob").status_code in (403, 404), who
    assert request(hub, server_token(hub, "bob"), "no-such-user").status_code in (403, 404)


def test_user_without_a_tenant_gets_none(hub: Hub) -> None:
    response = request(hub, server_token(hub, "guest"), "guest")
    assert (response.status_code, response.json()["message"]) == (
        403, "guest is in no tenant of the site, and cannot submit jobs",
    )  # fmt: skip


def test_name_that_the_pool_cannot_have_gets_none(hub: Hub) -> None:
    response = request(hub, server_token(hub, "ann@example.org"), "ann@example.org")
    assert response.status_code == 403, response.text
    assert "is no user's name" in response.json()["message"]


def test_pool_that_is_down_stops_no_server(running_hub: Hub) -> None:
    token = server_token(running_hub, "bob")
    response = request(running_hub, token, "bob")
    assert response.status_code == 503, response.text
    assert "the batch system issues no tokens" in response.json()["message"]
    pod = json.dumps(running_hub.pod("bob"))
    assert "htcondor-central-manager.htcondor.svc:9618" in pod
    with running_hub.pool.running():
        assert request(running_hub, token, "bob").status_code == 201


def extension(hub: Hub, user: str, directory: Path) -> subprocess.Popen[str]:
    """The extension with the environment of a server."""
    environment = {
        "PYTHONPATH": str(SERVICE.folder / "images" / "notebook" / "src"),
        "JUPYTERHUB_API_URL": f"{hub.url}/api",
        "JUPYTERHUB_API_TOKEN": server_token(hub, user),
        "JUPYTERHUB_USER": user,
        "_CONDOR_SEC_TOKEN_DIRECTORY": str(directory),
    }
    command = [str(service_python("jupyterhub/images/hub")), "-B", "-c", EXTENSION]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_server_writes_its_token_for_htcondor(hub: Hub, tmp_path: Path) -> None:
    output, _ = extension(hub, "bob", tmp_path / "tokens").communicate(timeout=120)
    assert output.split() == ["kept"]
    (file,) = (tmp_path / "tokens").iterdir()
    assert "-identity research.bob@lab " in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_server_without_a_token_runs_on(running_hub: Hub, tmp_path: Path) -> None:
    """It reports why, asks again where the pool is down, and not where the user is in no tenant."""
    process = extension(running_hub, "bob", tmp_path / "tokens")
    assert process.stdout is not None
    warning = next(line for line in process.stdout if line.strip())
    process.kill()
    process.communicate()
    assert "the batch system issues no tokens" in warning
    assert "next request in 60 s" in warning
    output, _ = extension(running_hub, "guest", tmp_path / "tokens").communicate(timeout=120)
    assert "no batch jobs: guest is in no tenant of the site" in output
    assert output.split()[-1] == "ended"
