"""Datasets in a real JupyterHub with the real KubeSpawner: who registers them, and what a server gets of a real HTTPS
server."""

from __future__ import annotations

import hashlib
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.models import SiteError, load_site
from strata.site.secrets import pki
from strata_bench.services import free_port
from strata_services.jupyterhub.service import SERVICE

from .running_hub import IMAGES, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
GOOD = b"length,width\n5.1,3.5\n"
SHA256 = hashlib.sha256(GOOD).hexdigest()
SOURCE = "https://data.example.org/iris.csv"


@pytest.fixture
def hub(running_hub: Hub) -> Iterator[Hub]:
    """The hub, without datasets before and after."""
    running_hub.clear()
    yield running_hub
    running_hub.clear()


def register(hub: Hub, name: str, **dataset: Any) -> None:
    response = hub.put("ada", f"research/datasets/{name}", dataset)
    assert (response.status_code, response.json()) == (200, dataset), response.text


def mounts(hub: Hub, user: str) -> dict[str, tuple[str, bool]]:
    """Mount path to folder in the volume, and whether it is read-only."""
    found = hub.container(user).get("volumeMounts") or ()
    return {one["mountPath"]: (one["subPath"], one["readOnly"]) for one in found if one["name"] == "datasets"}


def test_members_servers_have_their_tenants_datasets(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE)
    register(hub, "scratch", source=SOURCE, mount_path="/datasets/team/scratch", read_only=False)
    for user in ("bob", "carol", "both"):
        assert mounts(hub, user) == {"/datasets/iris": ("iris", True), "/datasets/team/scratch": ("scratch", False)}
    for user in ("eve", "guest"):
        assert mounts(hub, user) == {}
        assert "initContainers" not in hub.pod(user)["spec"]
    assert hub.call(hub.token("ada"), "DELETE", "/api/tenants/research/datasets/scratch").status_code == 204
    assert list(mounts(hub, "bob")) == ["/datasets/iris"]


def test_init_container_is_the_sites_and_restricted(hub: Hub) -> None:
    """A tenant's image may have no Python, and could report what it likes."""
    register(hub, "iris", source=SOURCE)
    assert hub.put("ada", "research/configuration/tenant", {"image": IMAGES[0]}).ok
    spec = hub.pod("bob")["spec"]
    (init,) = spec["initContainers"]
    assert (spec["containers"][0]["image"], init["image"]) == (IMAGES[0], "registry.example.org/notebook:1")
    security = init["securityContext"]
    assert (security["allowPrivilegeEscalation"], security["runAsNonRoot"]) == (False, True)
    assert (security["capabilities"], security["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "datasets")
    assert int(volume["emptyDir"]["sizeLimit"]) > 0, "else a notebook fills the node's disk"
    assert [one["mountPath"] for one in init["volumeMounts"]] == ["/datasets"], "and not the home"


def test_members_read_and_the_administrator_writes(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE, required=True)
    path = "/api/tenants/research/datasets"
    for user in ("ada", "bob", "both"):
        assert hub.call(hub.token(user), "GET", path).json() == {"iris": {"source": SOURCE, "required": True}}
        assert hub.call(hub.token(user), "GET", f"{path}/iris").json()["source"] == SOURCE
    assert hub.call(hub.token("bob"), "GET", f"{path}/other").status_code == 404
    strangers = {
        "nobody": None,
        "a forged token": "0" * 32,
        "another tenant's administrator": hub.token("eve"),
        "a user without a tenant": hub.token("guest"),
        "an administrator of the hub": hub.operator,
        "a member's server": hub.token("bob", scopes=["access:servers!user=bob", "users:activity!user=bob"]),
    }
    for who, token in strangers.items():
        assert hub.call(token, "GET", path).status_code == 403, who
        assert hub.call(token, "GET", f"{path}/iris").status_code == 403, who
    for who, token in (strangers | {"a member": hub.token("bob")}).items():
        assert hub.call(token, "PUT", f"{path}/iris", {"source": "https://evil/"}).status_code == 403, who
        assert hub.call(token, "DELETE", f"{path}/iris").status_code == 403, who
    assert hub.put("ada", "biology/datasets/iris", {"source": SOURCE}).status_code == 403
    assert hub.call(hub.token("bob"), "GET", path).json()["iris"]["source"] == SOURCE


def test_every_change_of_a_dataset_is_recorded(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE)
    register(hub, "iris", source=SOURCE, required=True)
    assert hub.call(hub.token("ada"), "DELETE", "/api/tenants/research/datasets/iris").status_code == 204
    changes = hub.call(hub.token("ada"), "GET", "/api/tenants/research/configuration/changes").json()[:3]
    assert [(one["by"], one["kind"], one["name"], one["before"], one["after"]) for one in changes] == [
        ("ada", "datasets", "iris", {"source": SOURCE, "required": True}, None),
        ("ada", "datasets", "iris", {"source": SOURCE}, {"source": SOURCE, "required": True}),
        ("ada", "datasets", "iris", None, {"source": SOURCE}),
    ]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "no source": ("iris", {}, "source: None"),
    "http": ("iris", {"source": "http://data.example.org/a"}, "source: 'http://data.example.org/a'"),
    "file": ("iris", {"source": "file:///etc/passwd"}, "is no HTTPS URL"),
    "no host": ("iris", {"source": "https:///a"}, "is no HTTPS URL"),
    "port": ("iris", {"source": "https://a:port/"}, "is no HTTPS URL"),
    "password": ("iris", {"source": "https://ada:sesame@example.org/a"}, "has a user or a password"),
    "empty user": ("iris", {"source": "https://@example.org/a"}, "has a user or a password"),
    "fragment": ("iris", {"source": "https://example.org/a#b"}, "without #b"),
    "line break": ("iris", {"source": "https://example.org/a\n"}, "is no URL"),
    "long": ("iris", {"source": "https://example.org/" + "a" * 1000}, "at most 1000 characters"),
    "list": ("iris", {"source": [SOURCE]}, "is no URL"),
    "home": ("iris", {"source": SOURCE, "mount_path": "/home/jovyan"}, "mount_path: '/home/jovyan'"),
    "programs": ("iris", {"source": SOURCE, "mount_path": "/datasets/../usr/bin"}, "fix: /datasets/iris, or another"),
    "all": ("iris", {"source": SOURCE, "mount_path": "/datasets"}, "is no path below /datasets"),
    "used": ("iris", {"source": SOURCE, "mount_path": "/datasets/stars"}, "dataset stars is at /datasets/stars"),
    "below": ("iris", {"source": SOURCE, "mount_path": "/datasets/stars/a"}, "dataset stars is at /datasets/stars"),
    "digest": ("iris", {"source": SOURCE, "sha256": "abc"}, "sha256: 'abc': is no digest; fix: 64"),
    "boolean": ("iris", {"source": SOURCE, "required": "yes"}, "required: 'yes'"),
    "unknown key": ("iris", {"source": SOURCE, "claim": "homes"}, "claim: 'homes': unknown key; fix: one of source"),
    "no object": ("iris", ["source"], "body: ['source']"),
    "name": ("Iris", {"source": SOURCE}, "name: 'Iris'"),
    "too much": ("iris", {"source": SOURCE, "x": "a" * 70_000}, "body: 7"),
}


@pytest.mark.parametrize(("name", "body", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_datasets_are_refused(hub: Hub, name: str, body: Any, message: str) -> None:
    register(hub, "stars", source=SOURCE)
    response = hub.put("ada", f"research/datasets/{name}", body)
    assert response.status_code == 400, response.text
    text = response.json()["message"]
    assert message in text
    assert "fix: " in text
    assert "sesame" not in text
    assert list(hub.call(hub.token("ada"), "GET", "/api/tenants/research/datasets").json()) == ["stars"]


def test_tenant_has_a_most_of_datasets(hub: Hub) -> None:
    for number in range(16):
        register(hub, f"d{number}", source=SOURCE)
    response = hub.put("ada", "research/datasets/more", {"source": SOURCE})
    assert response.status_code == 400
    assert "the tenant has 16 datasets; fix: delete one" in response.json()["message"]
    register(hub, "d1", source=SOURCE, required=True)


def test_downloads_end_before_the_start_does(lab_with: Callable[..., Path]) -> None:
    with pytest.raises(SiteError, match=r"servers have 60 s to start"):
        load_site(lab_with(SERVICE, start_seconds=60, datasets={"download_seconds": 60}))


def test_time_of_downloads_is_half_of_the_starts(
    values_of: Callable[..., dict[str, Any]], lab_with: Callable[..., Path], fake_secrets: Any
) -> None:
    downloads = values_of(SERVICE, lab_with(SERVICE, start_seconds=90))["custom"]["downloads"]
    assert downloads == {"bytes": 2 * 2**30, "seconds": 45, "authorities": fake_secrets.ca}


@dataclass(frozen=True)
class Sources:
    """An HTTPS server.

    Args:
        url: without a slash at its end.
        authority: PEM of the CA that signed its certificate.
        release: lets a server that has not answered yet end.
    """

    url: str
    authority: str
    release: threading.Event


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """A server with a good file, and others."""
    directory, release = tmp_path_factory.mktemp("sources"), threading.Event()
    authority, key = pki.create_authority("unit")
    issued = pki.issue(authority, key, "localhost", ["localhost"], [])
    (directory / "server.pem").write_text(issued.certificate + issued.private_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(directory / "server.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if name == "silent":
                release.wait(60)
                return
            if name == "trickle":
                with suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not release.wait(0.05):
                        self.wfile.write(b"x")
                return
            locations = {"moved": "/iris.csv", "downgrade": "http://localhost/iris.csv"}
            self.send_response({"missing": 404, "empty": 204}.get(name, 302 if name in locations else 200))
            if name in locations:
                self.send_header("Location", locations[name])
            lengths = {"huge": 10**12, "short": len(GOOD) + 1}
            if name not in ("endless", "slow"):
                self.send_header("Content-Length", str(lengths.get(name, len(GOOD))))
            self.end_headers()
            with suppress(OSError):  # the client has ended
                while name in ("endless", "slow") and not release.wait(0.05 if name == "slow" else 0):
                    self.wfile.write(b"x" * (1 if name == "slow" else 2**16))
                self.wfile.write(GOOD)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Sources(f"https://localhost:{server.server_port}", authority, release)
    release.set()
    server.shutdown()
    server.server_close()


def init(pod: dict[str, Any], directory: Path, authority: str, **limits: int) -> tuple[int, str, Path]:
    """Runs the init container of a pod, below `directory`; returns exit status, report and the folder of datasets."""
    (container,) = pod["spec"]["initContainers"]
    (variable,) = container["env"]
    given = json.loads(variable["value"])
    assert (given["directory"], given["report"]) == ("/datasets", "/dev/termination-log")
    datasets, report = directory / "datasets", directory / "report"
    datasets.mkdir(exist_ok=True)
    given |= {"directory": str(datasets), "report": str(report)}
    given["limits"] |= {"authorities": authority, **limits}
    environment = {variable["name"]: json.dumps(given)}
    command = [sys.executable, *container["command"][1:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert not done.stderr, done.stderr
    return done.returncode, report.read_text(), datasets


def test_server_gets_what_the_source_has(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/iris.csv", sha256=SHA256, required=True)
    register(hub, "moved", source=f"{sources.url}/moved?version=2")
    register(hub, "folder", source=f"{sources.url}/")
    for _ in range(2):  # the kubelet starts it again
        status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority)
        assert (status, json.loads(report)) == (0, [])
    found = {str(file.relative_to(datasets)): file.read_bytes() for file in datasets.rglob("*") if file.is_file()}
    assert found == {"iris/iris.csv": GOOD, "moved/moved": GOOD, "folder/folder": GOOD}


UNREACHABLE = {
    "missing": ({}, "404 Not Found"),
    "empty": ({}, "204 No Content"),
    "huge": ({}, "1000000000000 bytes, and at most 1000000 are allowed"),
    "endless": ({}, "more than 1000000 bytes"),
    "short": ({}, "ended after"),
    "downgrade": ({}, "redirects to http, not to https"),
    "iris.csv": ({"sha256": "0" * 64}, f"sha256 is {SHA256}, not the registered one"),
}


def test_each_unreachable_dataset_is_named(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for path, (more, _) in UNREACHABLE.items():
        register(hub, path.partition(".")[0], source=f"{sources.url}/{path}", **more)
    register(hub, "refused", source=f"https://localhost:{free_port()}/")
    register(hub, "unknown", source="https://no-such-host.invalid/")
    register(hub, "good", source=f"{sources.url}/good")
    status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority, bytes=1_000_000)
    assert status == 0, "none is required"
    reasons = {one["name"]: one["reason"] for one in json.loads(report)}
    for path, (_, why) in UNREACHABLE.items():
        assert why in reasons.pop(path.partition(".")[0])
    assert "refused" in reasons.pop("refused")
    assert reasons.keys() == {"unknown"}
    assert (datasets / "good" / "good").read_bytes() == GOOD
    (note,) = (datasets / "missing").iterdir()
    assert note.name == "UNREACHABLE.txt"
    assert note.read_text() == f"{sources.url}/missing: 404 Not Found\n"


def test_download_ends_in_time(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for path in ("slow", "silent", "trickle"):
        register(hub, path, source=f"{sources.url}/{path}")
    status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority, seconds=1)
    reasons = {one["name"]: one["reason"] for one in json.loads(report)}
    assert (status, reasons["silent"], reasons["trickle"]) == (0, *["no response in time"] * 2)
    assert reasons["slow"] in ("not complete after 1 s", "no response in time")
    assert [file.name for file in (datasets / "slow").iterdir()] == ["UNREACHABLE.txt"]


def test_report_of_all_datasets_fits_into_a_containers(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for number in range(16):
        name = f"{number:02}-{'long' * 15}"
        register(hub, name, source=f"{sources.url}/iris.csv", sha256="0" * 64, required=number == 0)
    status, report, _ = init(hub.pod("bob"), tmp_path, sources.authority)
    assert (status, len(json.loads(report))) == (1, 16)
    assert len(report) <= 4096


def test_server_with_another_ca_is_unreachable(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/iris.csv")
    other, _ = pki.create_authority("other")
    _, report, _ = init(hub.pod("bob"), tmp_path, other)
    assert "CERTIFICATE_VERIFY_FAILED" in report


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
        """What the page of the start shows."""
        url = f"{self.hub.url}/api/users/{self.user}/server/progress"
        headers = {"Authorization": f"token {self.hub.operator}"}
        with requests.get(url, headers=headers, stream=True, timeout=120) as stream:
            assert stream.status_code == 200, stream.text
            for line in stream.iter_lines(decode_unicode=True):
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))


@contextmanager
def starting(hub: Hub, user: str, status: int, report: str) -> Iterator[Start]:
    """A start, after the init container has ended like this."""

    class Notebook(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    notebook = ThreadingHTTPServer(("127.0.0.1", 0), Notebook)
    threading.Thread(target=notebook.serve_forever, daemon=True).start()
    ended = {"terminated": {"exitCode": status, "message": report}}
    again = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    init_status = {"name": "datasets", **(again if status else {"state": ended})}
    found = {
        "metadata": {},
        "url": f"http://127.0.0.1:{notebook.server_port}",
        "status": {"phase": "Pending", "podIP": "127.0.0.1", "initContainerStatuses": [init_status]},
    }
    start = Start(hub, user, found)
    server = f"/api/users/{user}/server"
    try:
        start.reported()
        hub.token(user)
        # answers when the server has started, or after 10 s
        request = threading.Thread(target=hub.call, args=(hub.operator, "POST", server, {"profile": "standard"}))
        request.start()
        end = time.monotonic() + 60
        # else the page would show the failure of an earlier start
        while request.is_alive() and not hub.call(hub.operator, "GET", f"/api/users/{user}").json()["pending"]:
            assert time.monotonic() < end, "no start"
            time.sleep(0.05)
        yield start
        request.join()
    finally:
        hub.call(hub.operator, "DELETE", server)
        (hub.directory / f"{user}.kubernetes").unlink()
        notebook.shutdown()
        notebook.server_close()


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
