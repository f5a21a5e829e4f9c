"""What an open page of JupyterLab states before its server is stopped, and what it reports as activity."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from strata_bench.browser import Browser, browser
from strata_bench.https_server import in_background
from strata_bench.services import free_port, service_python
from strata_bench.waiting import eventually, responds
from strata_services.jupyterhub.service import SERVICE

IMAGE = SERVICE.folder / "images" / "notebook"
SECONDS = 120.0
"""The longest wait on a loaded machine."""
CODE = "import time; time.sleep(300)"
KEEP = '.Toastify__toast button[title="Keep it running"]'


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

        with in_background(ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)) as server:
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
def jupyterlab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Started by Python's arguments, `-m jupyterlab` by default."""
    program = getattr(request, "param", ("-m", "jupyterlab"))
    hub, port = SubstituteHub(), free_port()
    python = service_python("jupyterhub/images/notebook")
    command = [str(python), *program, "--no-browser", "--IdentityProvider.token=lab", f"--port={port}"]
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
        lab = Lab(f"http://127.0.0.1:{port}", process, hub)
        try:
            responds(f"{lab.url}/api/status?token=lab", process, tmp_path / "log")
            yield lab
        finally:
            process.terminate()
            process.wait(30)


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
    texts: list[str] = []

    def shown() -> bool:
        texts[:] = notices(window)
        return len(texts) == 1 and part in texts[0]

    eventually(shown, SECONDS, f"a notification with {part!r}")
    return texts[0]


@pytest.mark.nightly
def test_open_page_warns_and_keeps_the_server_on_request(jupyterlab: Lab, window: Browser) -> None:
    hub = jupyterlab.hub
    hub.after_report = 602  # the page asks again after 3 s
    window.visit(f"{jupyterlab.url}/lab?token=lab")
    window.find(".jp-Launcher", SECONDS)
    eventually(lambda: len(hub.reports) == 1, SECONDS, "opening the page counts as activity")
    hub.stop["seconds"] = 500.0
    text = notice(window, "Your server stops at")
    assert "after 1 h without activity. Files in your home stay." in text
    eventually(lambda: window.driver.title.startswith("(stops "), SECONDS, "the tab shows the time")
    window.run("document.title = 'n.ipynb'")  # as JupyterLab does
    eventually(lambda: window.driver.title.startswith("(stops "), SECONDS, "the tab shows the time again")
    assert len(hub.reports) == 1, "the warning itself is not an activity"

    window.find(KEEP, SECONDS).click()
    eventually(lambda: len(hub.reports) > 1, SECONDS, "the button counts as activity")
    eventually(lambda: not notices(window), SECONDS, "the warning is gone")
    eventually(lambda: not window.driver.title.startswith("(stops "), SECONDS, "the tab shows no time")

    hub.stop.update(seconds=1.0, reason="age", limit=43200)
    text = notice(window, "12 h after its start")
    assert "Save your work: the time cannot be extended." in text
    assert "Keep" not in text
    jupyterlab.process.terminate()
    assert "after its start. Files in your home stay." in notice(window, "Your server was stopped at")


def test_reading_is_not_activity_and_changes_are(jupyterlab: Lab) -> None:
    """JupyterLab sends the first group while nobody is there."""
    before = jupyterlab.last_activity()
    for path in ("contents", "sessions", "kernels", "terminals", "kernelspecs", "me"):
        jupyterlab.call("GET", f"api/{path}")
    answer = jupyterlab.call("GET", "strata/api/culling")
    assert (answer["batch"], answer["full"]) == (None, None)
    jupyterlab.call("PUT", "lab/api/workspaces/test", {"data": {}, "metadata": {"id": "test"}})
    assert jupyterlab.last_activity() == before
    jupyterlab.call("PUT", "api/contents/new.txt", {"type": "file", "format": "text", "content": "new"})
    after = jupyterlab.last_activity()
    assert after > before
    jupyterlab.call("POST", "strata/api/culling")
    assert jupyterlab.last_activity() > after
    assert len(jupyterlab.hub.reports) == 1


NOTICE = """
import json, runpy, sys, time
from strata_notebook import batch
batch.TOKEN.problem, batch.TOKEN.login_ended, batch.TOKEN.expires = "ended", True, time.time() + 7200
sys.argv[0] = "jupyter-lab"
runpy.run_module("jupyterlab", run_name="__main__")
"""
"""JupyterLab after the login of its user has ended; the notice's content is tested with the tokens."""


FULL = """
import runpy, sys
from strata_notebook import home
home.full = lambda *_: "Your home is full: all of it."
sys.argv[0] = "jupyter-lab"
runpy.run_module("jupyterlab", run_name="__main__")
"""
"""JupyterLab in a full home, without one; the text is tested with the file system."""


@pytest.mark.nightly
@pytest.mark.parametrize("jupyterlab", [("-c", FULL)], indirect=True)
def test_open_page_reports_a_full_home(jupyterlab: Lab, window: Browser) -> None:
    window.visit(f"{jupyterlab.url}/lab?token=lab")
    script = "return [...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText)"

    def shown() -> bool:
        return [text for text in window.run(script) if "home" in text] == ["Your home is full: all of it."]

    eventually(shown, SECONDS, "a notification")
    # of the extension jupyter-resource-usage
    eventually(lambda: "Disk:" in window.run("return document.body.innerText"), SECONDS, "the use of the home")


@pytest.mark.nightly
@pytest.mark.parametrize("jupyterlab", [("-c", NOTICE)], indirect=True)
def test_open_page_asks_for_a_login(jupyterlab: Lab, window: Browser) -> None:
    window.visit(f"{jupyterlab.url}/lab?token=lab")
    script = "return [...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText)"

    def shown() -> bool:
        texts = [text for text in window.run(script) if "Your login has ended" in text]
        return len(texts) == 1 and "Batch jobs can be submitted until" in texts[0] and "Log in again" in texts[0]

    eventually(shown, SECONDS, "a notification")


@pytest.mark.nightly
def test_page_that_no_one_uses_is_not_activity(jupyterlab: Lab, window: Browser) -> None:
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

    eventually(idle, SECONDS, "an idle kernel")

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

        eventually(polled_twice, SECONDS, "JupyterLab polls")
        return jupyterlab.last_activity() == before

    eventually(quiet, SECONDS, "the page causes no activity")
    before, reports = jupyterlab.last_activity(), len(jupyterlab.hub.reports)
    assert reports == 1
    editor.send_keys(Keys.SHIFT, Keys.ENTER)
    eventually(lambda: not idle(), SECONDS, "the cell runs")
    started = jupyterlab.last_activity()
    assert started > before
    eventually(
        lambda: jupyterlab.last_activity() > started and not idle(), SECONDS, "a silent computation counts as activity"
    )
