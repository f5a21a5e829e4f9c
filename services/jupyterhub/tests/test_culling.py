"""Idle servers: what counts as activity, when they are stopped, and what the hub states of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.catalogue.service import Service
from strata_bench.waiting import eventually
from strata_services.jupyterhub.service import SERVICE

from .image_code import notebook_server, run_code
from .running_hub import Hub

ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
SECONDS = 120.0
"""The longest wait on a loaded machine."""


def test_servers_report_activity_several_times_within_the_idle_time(
    values_of: ValuesOf, lab_with: Callable[..., Path]
) -> None:
    for idle, expected in ((3600, "60"), (120, "30"), (2, "1")):
        values = values_of(SERVICE, lab_with(SERVICE, culling={"idle_seconds": idle}))
        assert values["singleuser"]["extraEnv"]["JUPYTERHUB_ACTIVITY_INTERVAL"] == expected


PROXY = """
import asyncio, json
from strata_hub.culling import QuietProxy
class Response:
    body = json.dumps({"/user/ada": {
        "jupyterhub": True, "user": "ada", "server_name": "", "target": "http://192.0.2.1",
        "last_activity": "2026-01-01T00:00:00Z",
    }}).encode()
async def answer(*_, **__):
    return Response
proxy = QuietProxy.__new__(QuietProxy)
proxy.api_request = answer
proxy.host_routing = False
print(json.dumps(asyncio.run(proxy.get_all_routes())))
"""


def test_traffic_at_the_proxy_is_not_activity() -> None:
    done = run_code(PROXY)
    assert done.returncode == 0, done.stderr
    (route,) = json.loads(done.stdout).values()
    assert (route["target"], route["data"]["user"]) == ("http://192.0.2.1", "ada")
    assert "last_activity" not in route["data"]


@pytest.fixture
def running_server(running_hub: Hub) -> Iterator[Callable[[str], None]]:
    """Starts a user's server; all are stopped afterwards."""
    users: list[str] = []
    with notebook_server() as port:

        def ready(user: str) -> object:
            model = running_hub.call(running_hub.operator, "GET", f"/api/users/{user}").json()
            return model["servers"].get("", {}).get("ready")

        def start(user: str) -> None:
            users.append(user)
            running_hub.token(user)
            (running_hub.directory / f"{user}.address").write_text(str(port))
            response = running_hub.call(running_hub.operator, "POST", f"/api/users/{user}/server")
            assert response.status_code in (201, 202), response.text
            eventually(lambda: ready(user), SECONDS, "the server is ready", pause=0.1)

        yield start
        for user in users:
            running_hub.call(running_hub.operator, "DELETE", f"/api/users/{user}/server")
            (running_hub.directory / f"{user}.address").unlink()


hub_group = pytest.mark.xdist_group("jupyterhub-hub")


def stop_of(hub: Hub, user: str, token: str | None) -> requests.Response:
    return hub.call(token, "GET", f"/api/users/{user}/culling")


def server_token(hub: Hub, user: str) -> str:
    """What the hub gives to the user's server."""
    return hub.token(user, scopes=[f"access:servers!server={user}/", f"users:activity!user={user}"])


@hub_group
def test_hub_shows_when_it_stops_a_server(running_hub: Hub, running_server: Callable[[str], None]) -> None:
    running_server("carol")
    token = server_token(running_hub, "carol")
    stop = stop_of(running_hub, "carol", token).json()
    assert (stop["reason"], stop["limit"], stop["warning"]) == ("idle", 3600, 600)
    assert 3600 - SECONDS < stop["seconds"] <= 3600
    first = time.time() + stop["seconds"]
    reported = datetime.now(UTC)
    body = {"servers": {"": {"last_activity": reported.isoformat()}}, "last_activity": reported.isoformat()}
    assert running_hub.call(token, "POST", "/api/users/carol/activity", body).ok
    seconds = stop_of(running_hub, "carol", token).json()["seconds"]
    assert first < reported.timestamp() + 3600 < time.time() + seconds + 0.01


@hub_group
def test_no_one_else_learns_of_a_users_server(running_hub: Hub, running_server: Callable[[str], None]) -> None:
    running_server("carol")
    for token in (None, "0" * 32, running_hub.token("ada"), server_token(running_hub, "mallory")):
        assert stop_of(running_hub, "carol", token).status_code in (403, 404)


@hub_group
def test_user_without_a_server_has_no_time(running_hub: Hub) -> None:
    response = stop_of(running_hub, "bob", server_token(running_hub, "bob"))
    assert (response.status_code, response.json()["message"]) == (404, "no server of bob runs")


NEXT_STOP = """
import json, sys
from datetime import datetime, timedelta
from strata_hub.culling import next_stop
now = datetime(2026, 1, 1)
ago = lambda seconds: None if seconds is None else now - timedelta(seconds=seconds)
print(json.dumps([next_stop(now, ago(a), ago(b), *rest) for a, b, *rest in json.load(sys.stdin)]))
"""


def test_next_stop_is_the_earlier_of_idle_time_and_age() -> None:
    cases = {
        (5000, 100, 3600, 0): (3500, "idle", 3600, 600),
        (100, None, 3600, 0): (3500, "idle", 3600, 600),
        (5000, 4000, 3600, 86400): (-400, "idle", 3600, 600),
        (86000, 10, 3600, 86400): (400, "age", 86400, 600),
        (10, 10, 120, 0): (110, "idle", 120, 30),
    }
    done = run_code(NEXT_STOP, text=json.dumps(list(cases)))
    assert done.returncode == 0, done.stderr
    assert [tuple(stop.values()) for stop in json.loads(done.stdout)] == list(cases.values())
