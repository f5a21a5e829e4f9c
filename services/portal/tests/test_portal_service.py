"""The front page as a process before a load balancer, and its release."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue.needs import Hostname
from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.service import Service
from strata.catalogue.site_services import needed
from strata.site_file.loader import load_site
from strata_bench.https_server import https_server
from strata_bench.module_file import load_module
from strata_bench.services import free_port
from strata_bench.waiting import eventually, responds
from strata_services.dask_gateway.service import SERVICE as DASK
from strata_services.object_storage.service import SERVICE as OBJECT_STORAGE
from strata_services.portal.service import SERVICE, entries

DOMAIN = "example.org"
SEEN: list[str] = []
SECONDS = 180.0


class Balancer(BaseHTTPRequestHandler):
    """The service `good` responds, `bad` has an error, `silent` states nothing."""

    def do_GET(self) -> None:
        if self.headers["Host"] == f"silent.{DOMAIN}":
            return
        SEEN.append(f"{self.headers['Host']}{self.path}")
        self.send_response(200 if self.headers["Host"] == f"good.{DOMAIN}" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@dataclass(frozen=True)
class Portal:
    """A running process: its URL, and that of its metrics."""

    url: str
    metrics_url: str

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=60)


def entry(name: str, title: str) -> dict[str, str]:
    host = f"{name}.{DOMAIN}"
    return {"title": title, "summary": f"{title} & more.", "url": f"https://{host}/", "host": host, "health": "/health"}


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    directory = tmp_path_factory.mktemp("portal")
    command = {"title": "By <command>", "summary": "", "command": "run <it>"}
    services = [entry("good", "<Good>"), command, entry("bad", "Bad"), entry("silent", "Silent")]
    page = {"title": "A & B", "introduction": "Text.", "contact": "a@b.org", "guide": "", "invited": True}
    (directory / "page.json").write_text(json.dumps({**page, "services": services}))
    with https_server(Balancer, directory, [f"*.{DOMAIN}"]) as balancer:
        (directory / "ca.pem").write_text(balancer.ca)
        port, metrics = free_port(), free_port()
        environment = os.environ | {
            "PORTAL_PAGE": str(directory / "page.json"),
            "PORTAL_ENTRANCE": f"127.0.0.1 {balancer.port}",
            "PORTAL_CA": str(directory / "ca.pem"),
            "PORT": str(port),
            "METRICS_PORT": str(metrics),
            "PYTHONPATH": str(SERVICE.folder / "src"),
        }
        with subprocess.Popen([sys.executable, "-m", "portal"], env=environment) as process:
            try:
                responds(f"http://127.0.0.1:{port}/healthz", process)
                yield Portal(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{metrics}/metrics")
            finally:
                process.terminate()


def test_states_are_those_that_users_meet(portal: Portal) -> None:
    eventually(lambda: portal.get("/state.json").json()["checked"], SECONDS, "the services were asked")
    states = [
        ["up", "Available"],
        ["down", "Not responding: HTTP status 503"],
        ["down", "Not responding: no answer"],
    ]
    assert portal.get("/state.json").json()["services"] == states
    assert {f"{name}.{DOMAIN}/health" for name in ("good", "bad")} <= set(SEEN)
    # without JavaScript too
    shown = re.findall('data-state="([a-z]+)">([^<]*)<', portal.get("/").text)
    assert [list(row) for row in shown] == states


def test_a_change_is_seen_within_seconds() -> None:
    """A request every 5 s, which may take 3 s."""
    source = load_module(SERVICE.folder / "src" / "portal" / "probe.py")
    assert (source.INTERVAL_SECONDS, source.TIMEOUT_SECONDS) == (5.0, 3.0)


def test_a_service_without_a_page_shows_its_command(portal: Portal) -> None:
    (card,) = re.findall('<li class="card"><h3>By .*', portal.get("/").text)
    assert card == '<li class="card"><h3>By &lt;command&gt;</h3><p></p><p><code>run &lt;it&gt;</code></p></li>'


def test_metrics_are_what_the_page_shows(portal: Portal) -> None:
    eventually(lambda: portal.get("/state.json").json()["checked"], SECONDS, "the services were asked")
    lines = requests.get(portal.metrics_url, timeout=60).text.splitlines()
    metrics = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    hosts = [f"{name}.{DOMAIN}" for name in ("bad", "good", "silent")]
    assert [metrics.pop(f'portal_service_up{{host="{host}"}}') for host in hosts] == ["0", "1", "0"]
    assert metrics.keys() == {f'portal_service_response_seconds{{host="{host}"}}' for host in hosts}
    assert all(0 <= float(seconds) < 5 for seconds in metrics.values())
    assert portal.get("/metrics").status_code == 404, "not on the port that is published"


def test_the_page_escapes_texts_and_loads_nothing_from_elsewhere(portal: Portal) -> None:
    response = portal.get("/")
    assert "<h1>A &amp; B</h1>" in response.text
    assert "&lt;Good&gt;</a>" in response.text
    assert 'href="mailto:a@b.org"' in response.text
    assert response.headers["Content-Security-Policy"].startswith(
        "default-src 'none'; style-src 'self'; script-src 'self'"
    )
    for path in re.findall('(?:src|<link[^>]* href)="([^"]+)"', response.text):
        assert portal.get(f"/{path}").status_code == 200, path
    assert portal.get("/healthz").status_code == 200
    assert portal.get("/../__main__.py").status_code == 404


def test_its_release_lists_every_service_that_a_person_can_use(
    lab_with: Callable[..., Path],
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
    objects_of: Callable[[Service[Any], Path], list[dict[str, Any]]],
) -> None:
    file = lab_with(SERVICE, documentation="https://git.example.org/strata/", contact="https://help.example.org/")
    page = values_of(SERVICE, file)["page"]
    shown = {entry["title"]: entry.get("url", entry.get("command")) for entry in page["services"]}
    assert shown == {
        "Access tokens": "https://tokens.lab.strata.test/",
        "Batch jobs": "condor_submit FILE",
        "Containers": "https://pods.lab.strata.test/",
        "Containers (API)": "https://api.lab.strata.test/v3/pods/openapi.json",
        "Hugging Face Hub": "HF_ENDPOINT=https://hub.lab.strata.test hf download MODEL",
        "Kubernetes": "kubectl get pods",
        "Measurements": 'curl --header "Authorization: Bearer $TOKEN" https://accounting.lab.strata.test/measurement',
        "Models": "OPENAI_BASE_URL=https://inference.lab.strata.test/v1",
        "Models (API)": "https://api.lab.strata.test/v3/ml-hub/openapi.json",
        "Models and datasets": "https://ml-hub.lab.strata.test/",
        "Notebooks": "https://jupyter.lab.strata.test/",
        "Object storage": "aws --endpoint-url https://s3.lab.strata.test s3 ls s3://PROJECT",
        "Programs (API)": "https://api.lab.strata.test/v3/oauth2/openapi.json",
        "Your account": "https://login.lab.strata.test/realms/strata/account",
    }
    assert {entry["title"] for entry in page["services"] if "host" not in entry} == {"Batch jobs", "Kubernetes"}
    assert page["guide"] == "https://git.example.org/strata/docs/getting-started.md"
    for entry in page["services"]:
        guide = entry["guide"].removeprefix("https://git.example.org/strata/")
        assert (SERVICE.folder.parents[1] / guide).is_file()
    objects = {o["kind"]: o for o in objects_of(SERVICE, file)}
    (rule,) = objects["Ingress"]["spec"]["rules"]
    assert rule["host"] == "lab.strata.test"
    assert json.loads(objects["ConfigMap"]["data"]["page.json"]) == page
    assert objects["Deployment"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == "9102"
    _, rule = objects["NetworkPolicy"]["spec"]["ingress"]
    assert rule == {"from": list(SCRAPERS), "ports": [{"port": "metrics", "protocol": "TCP"}]}
    names = [(service, need.title) for service, need in needed(load_site(file), Hostname)]
    # one name of a service with several is enough
    titled = {service.key for service, title in names if title}
    assert {service.key for service, _ in names} - titled == {SERVICE.key}
    (egress,) = objects["NetworkPolicy"]["spec"]["egress"]
    assert egress["ports"] == [{"port": 443, "protocol": "TCP"}]


def test_other_services_are_shown_where_a_site_has_them(lab_with: Callable[..., Path]) -> None:
    dask = {entry["title"]: entry for entry in entries(load_site(lab_with(DASK)), None)}["Dask clusters"]
    assert dask["command"] == "cluster = dask_gateway.Gateway().new_cluster()"
    assert dask["health"] == "/api/health"
    external = {"url": "https://rgw.example.org/"}
    content = yaml.safe_load(lab_with(OBJECT_STORAGE, external=external).read_text())
    tenants = [tenant["name"] for tenant in content["platform"]["tenants"]]
    keys = [f"{tenant}_bucket_{part}_key" for tenant in tenants for part in ("access", "secret")]
    file = lab_with(OBJECT_STORAGE, external=external)
    file.write_text(yaml.safe_dump({**content, "secrets": [{"name": key, "source": "environment"} for key in keys]}))
    storage = {entry["title"]: entry for entry in entries(load_site(file), None)}["Object storage"]
    assert storage["command"] == "aws --endpoint-url https://rgw.example.org s3 ls s3://PROJECT"
    assert "host" not in storage
