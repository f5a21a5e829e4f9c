"""Fixtures: the chart in a real API server, what runs its Deployments, model servers of words, the API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.site.paths import REPOSITORY
from strata_bench.api_server import ApiServer
from strata_bench.https_server import in_background
from strata_bench.service_processes import Service, running
from strata_bench.services import free_port, service_python
from strata_bench.token_issuer import Issuer, running_issuer
from strata_bench.waiting import eventually

from ..words_server import serve_words
from .controller import Controller, running_controller

NAMESPACE = "inference-tests"
WORDS, OTHERS, SCRIPTED = "research/words", "teaching/words", "scripted"
IDS = {WORDS: ["research"], OTHERS: ["teaching"], SCRIPTED: ["research", "teaching"]}
DEPLOYMENTS = {WORDS: "inference-model-words", OTHERS: "inference-model-others", SCRIPTED: "inference-model-scripted"}
SECONDS = 60
"""In which a loaded machine does what takes it half a second."""


def chart_values(**own: Any) -> dict[str, Any]:
    """Of helm/inference, with the three models."""
    image = {"repository": "registry.example.org:5000/strata/inference", "digest": "sha256:" + "0" * 64}
    models = [
        {"id": name, "name": DEPLOYMENTS[name], "revision": "main", "accelerator": "cpu", "cpu": 1, "memory": "512Mi",
         "tenants": tenants, "idleSeconds": 600}
        for name, tenants in IDS.items()
    ]  # fmt: skip
    return {
        "image": image,
        "modelImage": image,
        "issuer": {"url": "https://login.lab.strata.test"},
        "ingress": {"host": "inference.lab.strata.test"},
        "hub": {"environment": {"HF_ENDPOINT": "http://hub.example.org:8081"}},
        "models": models,
        **own,
    }


Upgrade = Callable[..., None]


@pytest.fixture(scope="session")
def upgrade(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Upgrade:
    """`upgrade(startSeconds=60)`: the release of the chart, installed or changed by the real helm."""
    file = tmp_path_factory.mktemp("chart") / "values.yaml"
    api_server.namespace(NAMESPACE)

    def run(**own: Any) -> None:
        file.write_text(yaml.safe_dump(chart_values(**own)))
        command = ("upgrade", "--install", "inference", str(REPOSITORY / "helm/inference"), "--values", str(file))
        api_server.helm(*command, "--namespace", NAMESPACE)

    run()
    return run


@pytest.fixture(scope="session")
def account(api_server: ApiServer, upgrade: Upgrade, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubeconfig of the API's service account, which has the rights of the chart and no others."""
    assert callable(upgrade)
    content = yaml.safe_load(api_server.kubeconfig.read_text())
    token = api_server.kubectl("-n", NAMESPACE, "create", "token", "inference", "--duration=4h")
    content["users"][0]["user"] = {"token": token.strip()}
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    return kubeconfig


@pytest.fixture(scope="session")
def shared_controller(
    api_server: ApiServer, upgrade: Upgrade, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """What runs Deployments."""
    assert callable(upgrade)
    with running_controller(api_server, NAMESPACE, tmp_path_factory.mktemp("controller")) as controller:
        yield controller


@pytest.fixture
def controller(shared_controller: Controller) -> Controller:
    """The same, with all models stopped."""
    shared_controller.status.clear()
    for name in DEPLOYMENTS.values():
        shared_controller.scale(name, 0)
        eventually(lambda name=name: not shared_controller.runs(name), SECONDS, f"{name} has no pod")  # type: ignore[misc]
    shared_controller.made.clear()
    return shared_controller


@dataclass
class Scripted:
    """A model server whose answers a test decides on.

    Args:
        url: of it.
        answer: status, headers and parts of the body; "break" instead of a part breaks the connection off.
        seen: headers and bodies of requests.
        ready: whether /readyz is 200.
    """

    url: str = ""
    answer: tuple[int, dict[str, str], list[bytes]] = (200, {"Content-Type": "application/json"}, [b"{}"])
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    ready: bool = True
    proceed: threading.Event = field(default_factory=threading.Event)
    """Each answer waits for it before its last part."""


@pytest.fixture
def scripted(scripted_server: Scripted) -> Scripted:
    """The same for all tests, as new."""
    fresh = Scripted()
    for name in ("answer", "seen", "ready"):
        setattr(scripted_server, name, getattr(fresh, name))
    scripted_server.proceed.set()
    return scripted_server


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Scripted]:
    """Of the model `scripted`."""
    state = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if state.ready else 503)
            self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status, headers, parts = state.answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for number, part in enumerate(parts):
                if number == len(parts) - 1:
                    state.proceed.wait(SECONDS)
                if part == b"break":
                    self.connection.close()
                    return
                self.wfile.write(part)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # connections that come at once; beyond it, they are reset

    with in_background(Server(("127.0.0.1", 0), Handler)) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with running_issuer("inference") as running:
        yield running


@pytest.fixture(scope="session")
def words_url(model_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A model server without a neural network, by the name of the model of research."""
    directory = tmp_path_factory.mktemp("words")
    with serve_words(model_python, directory / "gate", directory, {"name": WORDS}) as service:
        yield service.url


StartApi = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def start_api(account: Path, issuer: Issuer, scripted: Scripted, tmp_path: Path) -> StartApi:
    """`with start_api(idle=2, words="http://…", INFERENCE_START_SECONDS="5") as service:`."""

    def start(idle: float = 600, words: str = "http://127.0.0.1:9", **own: str) -> AbstractContextManager[Service]:
        urls = {WORDS: words, OTHERS: words, SCRIPTED: scripted.url}
        models = [
            {"id": name, "deployment": DEPLOYMENTS[name], "url": urls[name], "tenants": tenants, "idle_seconds": idle}
            for name, tenants in IDS.items()
        ]
        file = tmp_path / "models.json"
        file.write_text(json.dumps(models))
        port = free_port()
        settings = {
            "INFERENCE_MODELS_FILE": str(file),
            "INFERENCE_KUBECONFIG": str(account),
            "INFERENCE_NAMESPACE": NAMESPACE,
            "INFERENCE_ISSUER": issuer.url,
            "INFERENCE_BIND_PORT": str(port),
            "INFERENCE_METRICS_PORT": str(free_port()),
            "INFERENCE_RATE_LIMIT": "100000/minute",
            "INFERENCE_CHECK_SECONDS": "0.2",
            **own,
        }
        return running(service_python("inference"), ["-m", "inference", "serve"], settings, port, tmp_path)

    return start


@pytest.fixture(scope="session")
def token(issuer: Issuer) -> Callable[..., str]:
    """`token("research")`: of a member of tenants."""
    return lambda *tenants: issuer.token(groups=[f"/tenants/{tenant}" for tenant in tenants])


@dataclass(frozen=True)
class Asker:
    """Who asks.

    Args:
        url: of the API.
        token: of the issuer.
    """

    url: str
    token: str = field(repr=False)

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        """Sends a request; the body is JSON."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=120, **options)

    def complete(self, model: str = SCRIPTED, **fields: Any) -> requests.Response:
        """Asks a model."""
        return self("POST", "/v1/completions", {"model": model, "prompt": "one two", **fields})

    def complete_streamed(self) -> requests.Response:
        """Asks a model for a stream, and reads nothing of it."""
        return self("POST", "/v1/completions", {"model": SCRIPTED, "prompt": "one", "stream": True}, stream=True)

    def states(self) -> dict[str, str]:
        """Of the models."""
        models = self("GET", "/v3/ml-hub/inference").json()["result"]["models"]
        return {model["model_id"]: model["state"] for model in models}
