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

from .image_code import run_code
from .running_hub import SECRET, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
EXTENSION = """
import asyncio, logging, os, sys
from strata_notebook import batch
async def run():
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    kept = asyncio.create_task(batch.keep(os.environ, logging.getLogger("jupyter")))
    written = batch.Path(os.environ[batch.DIRECTORY], "token")
    while not written.exists():
        print("", flush=True)
        await asyncio.sleep(0.05)
    print("ended" if kept.done() else "kept")
asyncio.run(run())
"""
"""What Jupyter's server does with the extension, until it has a token."""
RENEWAL = """
import asyncio, logging, os
from strata_notebook import batch
async def run():
    kept = asyncio.create_task(batch.keep(os.environ, logging.getLogger("jupyter")))
    written = batch.Path(os.environ[batch.DIRECTORY], "token")
    times = []
    while len(times) < 2:
        if written.exists() and written.stat().st_mtime not in times:
            times.append(written.stat().st_mtime)
        await asyncio.sleep(0.05)
    print(times[1] - times[0])
asyncio.run(run())
"""
"""Prints the seconds between the first token and the next."""


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


def test_no_one_else_gets_a_users_token(hub: Hub) -> None:
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
    assert "is not a user's name" in response.json()["message"]


def test_pool_that_is_down_stops_no_server(running_hub: Hub) -> None:
    token = server_token(running_hub, "bob")
    response = request(running_hub, token, "bob")
    assert response.status_code == 503, response.text
    assert "the batch system issues no tokens" in response.json()["message"]
    pod = json.dumps(running_hub.pod("bob"))
    assert "htcondor-access-point.htcondor.svc:" in pod
    with running_hub.pool.running():
        assert request(running_hub, token, "bob").status_code == 201


def extension(hub: Hub, user: str, directory: Path, program: str = EXTENSION) -> subprocess.Popen[str]:
    """The extension with the environment of a server."""
    environment = {
        "PYTHONPATH": str(SERVICE.folder / "images" / "notebook" / "src"),
        "JUPYTERHUB_API_URL": f"{hub.url}/api",
        "JUPYTERHUB_API_TOKEN": server_token(hub, user),
        "JUPYTERHUB_USER": user,
        "_CONDOR_SEC_TOKEN_DIRECTORY": str(directory),
    }
    command = [str(service_python("jupyterhub/images/hub")), "-B", "-c", program]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_server_writes_its_token_for_htcondor(hub: Hub, tmp_path: Path) -> None:
    output, _ = extension(hub, "bob", tmp_path / "tokens").communicate(timeout=120)
    assert output.split() == ["kept"]
    (file,) = (tmp_path / "tokens").iterdir()
    assert "-identity research.bob@lab " in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_token_is_renewed_before_it_expires(running_hub: Hub, tmp_path: Path) -> None:
    """A notebook that runs longer than its token submits jobs all the time, also where tokens are short-lived."""
    lifetime = 40
    with running_hub.pool.running(lifetime):
        process = extension(running_hub, "bob", tmp_path / "tokens", RENEWAL)
        output, _ = process.communicate(timeout=120)
    (seconds,) = output.split()
    assert 0 < float(seconds) < lifetime


@pytest.mark.parametrize(
    ("user", "reason"),
    [("bob", "the batch system issues no tokens"), ("guest", "guest is in no tenant of the site")],
)
def test_server_without_a_token_runs_on(running_hub: Hub, tmp_path: Path, user: str, reason: str) -> None:
    """It reports why, and asks again: the pool comes back, and users get tenants."""
    process = extension(running_hub, user, tmp_path / "tokens")
    assert process.stdout is not None
    warning = next(line for line in process.stdout if line.strip())
    process.kill()
    process.communicate()
    assert reason in warning
    assert "next request in 60 s" in warning


ANSWERS = """
import asyncio, io, json, os, sys
from tornado.httpclient import HTTPClientError, HTTPRequest, HTTPResponse
from strata_notebook import batch
answers = json.load(sys.stdin)
notices = []
async def renew(environment):
    await asyncio.sleep(0)
    if notices or batch.TOKEN.expires:
        notices.append(batch.TOKEN.notice(1000))
    if not answers:
        raise asyncio.CancelledError
    status, content = answers.pop(0)
    if status == 201:
        batch.TOKEN.expires = content
        return 0
    body = io.BytesIO(json.dumps({"message": content}).encode())
    raise HTTPClientError(status, "", HTTPResponse(HTTPRequest("http://hub"), status, buffer=body))
"""


def test_page_shows_why_no_jobs_can_be_submitted(tmp_path: Path) -> None:
    """After the login has ended at once; after other failures when the token is no longer valid."""
    program = f"""{ANSWERS}
batch.renew, batch.RETRY_SECONDS, batch.SOONEST_SECONDS = renew, 0, 0
import logging
async def run():
    await asyncio.gather(batch.keep({{}}, logging.getLogger()), return_exceptions=True)
asyncio.run(run())
# the answer before is known when the next one is requested
print(json.dumps(notices))
"""
    cases: list[tuple[int, object, object]] = [
        (201, 2000, None),
        (503, "down", None),
        (401, "log in", {"problem": "log in", "login": True, "expires": 2000}),
        (201, 900, None),
        (503, "down", {"problem": "down", "login": False, "expires": 900}),
        (201, 3000, None),
    ]
    given = [(status, content) for status, content, _ in cases]
    done = run_code(program, text=json.dumps(given), image="notebook")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected for _, _, expected in cases]


def test_a_server_has_the_address_of_its_tenants_schedd(running_hub: Hub) -> None:
    """No other, and no collector's, which members may not query; the checks' user that of the first tenant."""

    def schedd(user: str) -> str:
        variables = {variable["name"]: variable.get("value", "") for variable in running_hub.container(user)["env"]}
        assert "_CONDOR_COLLECTOR_HOST" not in variables
        return str(variables["_CONDOR_SCHEDD_HOST"])

    host, _, port = schedd("bob").partition(":")
    assert host == "htcondor-access-point.htcondor.svc"
    assert schedd(VERIFY_USER) == f"{host}:{port}"
    assert schedd("mallory").startswith(f"{host}:")
    assert schedd("mallory") != f"{host}:{port}"
