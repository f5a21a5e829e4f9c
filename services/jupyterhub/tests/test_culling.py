"""Idle servers: what counts as activity, when they are stopped, and how their users learn of it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from strata.catalogue.service import Service
from strata_bench.browser import Browser, browser
from strata_bench.services import free_port, service_python
from strata_services.jupyterhub.service import SERVICE

from .running_hub import Hub

ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
IMAGE = SERVICE.folder / "images" / "notebook"
SECONDS = 120.0
"""The longest wait on a loaded machine."""
CODE = "import time; time.sleep(300)"
KEEP = '.Toastify__toast button[title="Keep it running"]'


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


def test_traffic_at_the_proxy_is_no_activity() -> None:
    done = subprocess.run(
        [service_python("jupyterhub/images/hub"), "-B", "-c", PROXY],
        env={"PYTHONPATH": str(SERVICE.folder / "images" / "hub" / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (route,) = json.loads(done.stdout).values()
    assert (route["target"], route["data"]["user"]) == ("http://192.0.2.1", "ada")
    assert "last_activity" not in route["data"]


class _Answers(BaseHTTPRequestHandler):
    """A user's server, as far as the hub asks whether it runs."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", free_port()), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def running_server(running_hub: Hub) -> Iterator[Callable[[str], None]]:
    """Starts a user's server; all are stopped afterwards."""
    users: list[str] = []
    with listening(_Answers) as server:

        def start(user: str) -> None:
            users.append(user)
            running_hub.token(user)
            (running_hub.directory / f"{user}.address").write_text(str(server.server_port))
            response = running_hub.call(running_hub.operator, "POST", f"/api/users/{user}/server")
            assert response.status_code in (201, 202), response.text
            end = time.monotonic() + SECONDS
            path = f"/api/users/{user}"
            while not running_hub.call(running_hub.operator, "GET", path).json()["servers"].get("", {}).get("ready"):
                assert time.monotonic() < end, "the server is not ready"
                time.sleep(0.1)

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
def test_hub_says_when_it_stops_a_server(running_hub: Hub, running_server: Callable[[str], None]) -> None:
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
def test_nobody_else_learns_of_a_users_server(running_hub: Hub, running_server: Callable[[str], None]) -> None:
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
    done = subprocess.run(
        [service_python("jupyterhub/images/hub"), "-B", "-c", NEXT_STOP],
        env={"PYTHONPATH": str(SERVICE.folder / "images" / "hub" / "src")},
        input=json.dumps(list(cases)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [tuple(stop.values()) for stop in json.loads(done.stdout)] == list(cases.values())


class SubstituteHub:
    """What the hub would answer, and what was reported to it."""

    def __init__(self) -> None:
        self.stop: dict[str, Any] = {"seconds": 3600.0, "reason": "idle", "limit": 3600, "warning": 600}
        self.after_report = 3600.0
        self.reports: list[str] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        """Yields the URL of the API."""
        this = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.headers["Authorization"] == "token server"
                self._answer(200 if self.path == "/hub/api/users/ada%20l/culling" else 404, this.stop)

            def do_POST(self) -> None:
                assert self.path == "/activity"
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                this.reports.append(body["servers"][""]["last_activity"])
                this.stop["seconds"] = this.after_report
                self._answer(200, None)

            def _answer(self, status: int, body: object) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None: ...

        with listening(Handler) as server:
            yield f"http://127.0.0.1:{server.server_port}"


class Lab:
    """A running JupyterLab with the image's extensions, and its hub."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], hub: SubstituteHub) -> None:
        self.url, self.process, self.hub = url, process, hub

    def call(self, method: str, path: str, body: Any = None) -> Any:
        response = requests.request(method, f"{self.url}/{path}", json=body, params={"token": "lab"}, timeout=SECONDS)
        assert response.ok, response.text
        return response.json() if response.content else None

    def last_activity(self) -> str:
        return str(self.call("GET", "api/status")["last_activity"])


@pytest.fixture
def jupyterlab(tmp_path: Path) -> Iterator[Lab]:
    hub, port = SubstituteHub(), free_port()
    python = service_python("jupyterhub/images/notebook")
    command = [str(python), "-m", "jupyterlab", "--no-browser", "--IdentityProvider.token=lab", f"--port={port}"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    with hub.running() as url, (tmp_path / "log").open("w") as log:
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(IMAGE / "src"),
            "JUPYTER_PATH": str(IMAGE / "share" / "jupyter"), "JUPYTER_CONFIG_PATH": str(IMAGE / "etc" / "jupyter"),
            "PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode"),
            "JUPYTERHUB_API_URL": f"{url}/hub/api", "JUPYTERHUB_ACTIVITY_URL": f"{url}/activity",
            "JUPYTERHUB_API_TOKEN": "server", "JUPYTERHUB_USER": "ada l",
        }  # fmt: skip
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        found = Lab(f"http://127.0.0.1:{port}", process, hub)
        try:
            _wait_for(found, tmp_path / "log")
            yield found
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(lab: Lab, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and lab.process.poll() is None:
        try:
            lab.last_activity()
            return
        except requests.RequestException:
            time.sleep(0.1)
    raise AssertionError(log.read_text())


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.fixture
def window() -> Iterator[Browser]:
    with browser(hosts="EXCLUDE 127.0.0.1") as opened:
        yield opened


def notices(window: Browser) -> list[str]:
    """Texts of the notifications about the server; JupyterLab has others."""
    script = "return [...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText)"
    return [text for text in window.run(script) if "Your server" in text]


def notice(window: Browser, part: str) -> str:
    """The only notification about the server, once it contains the part and any earlier one has faded out."""
    found: list[str] = []

    def shown() -> bool:
        found[:] = notices(window)
        return len(found) == 1 and part in found[0]

    until(shown, f"no notification with {part!r}")
    return found[0]


@pytest.mark.long
def test_open_page_warns_and_keeps_the_server_on_request(jupyterlab: Lab, window: Browser) -> None:
    hub = jupyterlab.hub
    hub.after_report = 602  # the page asks again after 3 s
    window.visit(f"{jupyterlab.url}/lab?token=lab")
    window.find(".jp-Launcher", SECONDS)
    until(lambda: len(hub.reports) == 1, "opening the page is activity")
    hub.stop["seconds"] = 500.0
    text = notice(window, "Your server stops at")
    assert "after 1 h without activity. Files in your home stay." in text
    until(lambda: window.driver.title.startswith("(stops "), "the tab does not show the time")
    window.run("document.title = 'n.ipynb'")  # as JupyterLab does
    until(lambda: window.driver.title.startswith("(stops "), "the tab no longer shows the time")
    assert len(hub.reports) == 1, "the warning itself is no activity"

    window.find(KEEP, SECONDS).click()
    until(lambda: len(hub.reports) > 1, "the button is activity")
    until(lambda: not notices(window), "the warning stays")
    until(lambda: not window.driver.title.startswith("(stops "), "the tab still shows the time")

    hub.stop.update(seconds=1.0, reason="age", limit=43200)
    text = notice(window, "12 h after its start")
    assert "Save your work: the time cannot be extended." in text
    assert "Keep" not in text
    jupyterlab.process.terminate()
    assert "after its start. Files in your home stay." in notice(window, "Your server was stopped at")


def test_reading_is_no_activity_and_changes_are(jupyterlab: Lab) -> None:
    """JupyterLab sends the first group while nobody is there."""
    before = jupyterlab.last_activity()
    for path in ("contents", "sessions", "kernels", "terminals", "kernelspecs", "me"):
        jupyterlab.call("GET", f"api/{path}")
    jupyterlab.call("GET", "strata/api/culling")
    jupyterlab.call("PUT", "lab/api/workspaces/test", {"data": {}, "metadata": {"id": "test"}})
    assert jupyterlab.last_activity() == before
    jupyterlab.call("PUT", "api/contents/new.txt", {"type": "file", "format": "text", "content": "new"})
    after = jupyterlab.last_activity()
    assert after > before
    jupyterlab.call("POST", "strata/api/culling")
    assert jupyterlab.last_activity() > after
    assert len(jupyterlab.hub.reports) == 1


@pytest.mark.long
def test_page_that_nobody_uses_is_no_activity(jupyterlab: Lab, window: Browser) -> None:
    """With a notebook and its kernel, over several polls of JupyterLab; a computation without output is activity."""
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "a",
        "source": CODE,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    notebook = {"cells": [cell], "metadata": spec, "nbformat": 4, "nbformat_minor": 5}
    jupyterlab.call("PUT", "api/contents/n.ipynb", {"type": "notebook", "format": "json", "content": notebook})
    window.visit(f"{jupyterlab.url}/lab/tree/n.ipynb?token=lab")
    editor = window.find(".jp-Notebook .cm-content", SECONDS)

    def idle() -> bool:
        kernels = jupyterlab.call("GET", "api/kernels")
        return bool(kernels) and kernels[0]["execution_state"] == "idle" and kernels[0]["connections"] > 0

    until(idle, "no kernel")

    def quiet() -> bool:
        before = jupyterlab.last_activity()
        window.requests()
        seen: list[str] = []

        def polled_twice() -> bool:
            seen.extend(window.requests())
            return (
                sum("/lab/api/workspaces/" in url for url in seen) > 1
                and sum("/api/contents" in url for url in seen) > 1
            )

        until(polled_twice, "JupyterLab does not poll")
        return jupyterlab.last_activity() == before

    until(quiet, "the page is active by itself")
    before, reports = jupyterlab.last_activity(), len(jupyterlab.hub.reports)
    assert reports == 1
    editor.send_keys(Keys.SHIFT, Keys.ENTER)
    until(lambda: not idle(), "the cell does not run")
    started = jupyterlab.last_activity()
    assert started > before
    until(lambda: jupyterlab.last_activity() > started and not idle(), "a silent computation is no activity")
