"""The page of a start whose datasets are unreachable, in a real JupyterHub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.verify.waiting import settled
from strata_bench.waiting import eventually

from .datasets import init, register
from .https_source import Sources, https_source
from .image_code import notebook_server
from .running_hub import Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    with https_source(tmp_path_factory.mktemp("sources")) as source:
        yield source


@dataclass
class Start:
    """A user's server that starts, whose init container has ended; its notebook is up as soon as it runs."""

    hub: Hub
    user: str
    pod: dict[str, Any]

    def reported(self) -> None:
        """Kubernetes' API returns the pod like this."""
        written = self.hub.directory / f".{self.user}"
        written.write_text(json.dumps(self.pod))
        written.rename(self.hub.directory / f"{self.user}.kubernetes")

    def run(self) -> None:
        """The notebook's container has started."""
        self.pod["status"] |= {"phase": "Running", "containerStatuses": [{"name": "notebook", "ready": True}]}
        self.reported()

    def events(self) -> Iterator[dict[str, Any]]:
        """What the page of the start shows. A start that fails is first ended: meanwhile the hub has no page of it."""
        url = f"{self.hub.url}/api/users/{self.user}/server/progress"
        headers = {"Authorization": f"token {self.hub.operator}"}

        def page() -> requests.Response:
            return requests.get(url, headers=headers, stream=True, timeout=120)

        with settled(page, lambda response: response.status_code != 400, 60, pause=0.1) as stream:
            assert stream.status_code == 200, stream.text
            for line in stream.iter_lines(decode_unicode=True):
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))


@contextmanager
def starting(hub: Hub, user: str, status: int, report: str) -> Iterator[Start]:
    """A start, after the init container has ended like this."""
    with notebook_server() as port:
        yield from _starting(hub, user, status, report, port)


def _starting(hub: Hub, user: str, status: int, report: str, port: int) -> Iterator[Start]:
    ended = {"terminated": {"exitCode": status, "message": report}}
    again = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    init_status = {"name": "datasets", **(again if status else {"state": ended})}
    datasets = {
        "metadata": {},
        "url": f"http://127.0.0.1:{port}",
        "status": {"phase": "Pending", "podIP": "127.0.0.1", "initContainerStatuses": [init_status]},
    }
    start = Start(hub, user, datasets)
    server = f"/api/users/{user}/server"
    try:
        start.reported()
        hub.token(user)
        # answers when the server has started, or after 10 s
        request = threading.Thread(target=hub.call, args=(hub.operator, "POST", server, {"profile": "standard"}))
        request.start()
        # else the page would show the failure of an earlier start
        eventually(
            lambda: not request.is_alive() or hub.call(hub.operator, "GET", f"/api/users/{user}").json()["pending"],
            60, "the server starts", pause=0.05,
        )  # fmt: skip
        yield start
        request.join()
    finally:
        hub.call(hub.operator, "DELETE", server)
        (hub.directory / f"{user}.kubernetes").unlink()


def test_start_fails_with_the_name_of_a_required_dataset(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/missing", required=True)
    register(hub, "extra", source=f"{sources.url}/missing")
    status, report, _ = init(hub.pod("bob"), tmp_path, sources.authority)
    assert status == 1
    with starting(hub, "bob", status, report) as start:
        *_, failed = start.events()
    assert failed["failed"] is True
    assert failed["message"] == (
        "Spawn failed: required datasets are unreachable: iris: 404 Not Found. "
        "Try again, or ask your tenant's administrators"
    )


def test_start_names_other_unreachable_datasets(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/iris.csv", required=True)
    register(hub, "extra", source=f"{sources.url}/missing")
    status, report, _ = init(hub.pod("bob"), tmp_path, sources.authority)
    assert status == 0
    named = "Unreachable datasets: extra: 404 Not Found"
    with starting(hub, "bob", status, report) as start:
        events = start.events()
        before = next(event for event in events if event["message"].startswith("Unreachable"))
        start.run()
        rest = list(events)
    assert before["message"] == named
    assert named not in [event["message"] for event in rest]
    assert rest[-1]["ready"] is True
