"""Datasets in a member's notebook: a good one, one that is optional and missing, one that is required and missing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from strata.catalogue.issuer import Issuer
from strata.site.context import SiteContext
from strata_services.jupyterhub.needs import NAMESPACE
from strata_services.jupyterhub.service import SERVICE

from .healing import eventually
from .notebooks import PAGE_SECONDS, User, new_user

pytestmark = pytest.mark.long
NAME = "datasets-ada"
"""Always the same: JupyterHub keeps a record of each user who ever logged in."""
GOOD, MISSING = "strata-test-good", "strata-test-missing"
NOWHERE = "https://datasets.invalid/missing"
STOP_SECONDS = 120.0
LOOK = """
import hashlib, json, os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
try:
    (folder / "new").write_text("")
    written = "yes"
except OSError as error:
    written = error.strerror
files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
print(json.dumps({"files": files, "written": written, "link": os.path.realpath(pathlib.Path.home() / "datasets")}))
"""
RESOLVE = """
import socket, sys
try:
    socket.getaddrinfo(sys.argv[1], 443)
    print("yes")
except OSError:
    print("no")
"""


@dataclass(frozen=True)
class Administrator:
    """A principal investigator of the first tenant.

    Args:
        user: with a session at the hub.
        tenant: name of the tenant.
        token: of the hub's API.
        profile: that the user starts.
    """

    user: User
    tenant: str
    token: str
    profile: str

    def call(self, method: str, path: str, body: Any = None, *, stream: bool = False) -> requests.Response:
        """A request to the hub's API."""
        headers = {"Authorization": f"token {self.token}"}
        return self.user.http.request(
            method, f"{self.user.hub}hub/api{path}", json=body, headers=headers, timeout=PAGE_SECONDS, stream=stream
        )

    def register(self, name: str, **dataset: Any) -> None:
        """Of the tenant."""
        response = self.call("PUT", f"/tenants/{self.tenant}/datasets/{name}", dataset)
        assert response.status_code == 200, response.text

    def delete(self, name: str) -> None:
        """Of the tenant."""
        assert self.call("DELETE", f"/tenants/{self.tenant}/datasets/{name}").status_code == 204

    def start(self) -> list[dict[str, Any]]:
        """Starts the server; returns what the page of the start shows."""
        path = f"/users/{self.user.name}/server"
        response = self.call("POST", path, {"profile": self.profile})
        assert response.status_code in (201, 202), response.text
        stream = self.call("GET", f"{path}/progress", stream=True)
        assert stream.status_code == 200, stream.text
        lines = (line for line in stream.iter_lines(decode_unicode=True) if line.startswith("data:"))
        return [json.loads(line.removeprefix("data:")) for line in lines]

    def stop(self) -> None:
        """Returns when neither server nor pod is left."""
        self.call("DELETE", f"/users/{self.user.name}/server")
        eventually(
            lambda: not self.call("GET", f"/users/{self.user.name}").json()["servers"] and not self.user.pods(),
            STOP_SECONDS,
            "the server has stopped",
        )


@pytest.fixture
def ada(context: SiteContext, own_issuer: Issuer, kubectl: Callable[..., str]) -> Iterator[Administrator]:
    """An administrator of the first tenant, without a server; no dataset of the test is left."""
    site, settings = context.site, SERVICE.of(context.site)
    if settings is None or not site.platform.tenants or own_issuer.users is None:
        pytest.skip(f"site {site.name} has no notebooks, no tenants, or users of another issuer")
    tenant = site.platform.tenants[0].name
    made = new_user(context, kubectl, NAME, tenant, administrator=True)
    with made as (user, password), ExitStack() as stack:
        user.log_in(own_issuer, password)
        found = Administrator(user, tenant, user.token(), settings.profiles[0].name)
        for name in (GOOD, MISSING):
            stack.callback(found.delete, name)
        stack.callback(found.stop)
        found.stop()
        yield found


def test_an_unreachable_dataset_is_named_and_ends_the_start_only_if_it_is_required(
    ada: Administrator, kubectl: Callable[..., str]
) -> None:
    """On the page of the start; the folder of an optional one says so too."""
    ada.register(MISSING, source=NOWHERE)
    begin = time.monotonic()
    events = ada.start()
    print(f"server without an optional dataset: {time.monotonic() - begin:.1f} s")
    assert any(event["message"].startswith(f"Unreachable datasets: {MISSING}: ") for event in events), events
    assert events[-1].get("ready"), events[-1]
    found = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{MISSING}"))
    assert list(found["files"]) == ["UNREACHABLE.txt"]
    assert (found["written"], found["link"]) == ("Read-only file system", "/datasets")
    ada.stop()

    ada.register(MISSING, source=NOWHERE, required=True)
    begin = time.monotonic()
    *_, failed = ada.start()
    print(f"server without a required dataset: {time.monotonic() - begin:.1f} s")
    assert failed.get("failed"), failed
    assert f"required datasets are unreachable: {MISSING}: " in failed["message"]
    ada.stop()


def test_a_dataset_is_in_the_notebook_and_read_only(ada: Administrator, kubectl: Callable[..., str]) -> None:
    """One of the site's own addresses: no other is sure to respond."""
    host = str(urlsplit(ada.user.hub).hostname)
    ada.start()
    known = in_notebook(ada, kubectl, RESOLVE, host)
    ada.stop()
    if known != "yes":
        pytest.skip(f"pods do not resolve {host}: the site's names are in no DNS")
    content = ada.user.http.get(f"{ada.user.hub}hub/logo", timeout=PAGE_SECONDS).content
    digest = hashlib.sha256(content).hexdigest()
    ada.register(GOOD, source=f"{ada.user.hub}hub/logo", sha256=digest, required=True)
    events = ada.start()
    assert events[-1].get("ready"), events[-1]
    found = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{GOOD}"))
    assert (found["files"], found["written"]) == ({"logo": digest}, "Read-only file system")


def in_notebook(ada: Administrator, kubectl: Callable[..., str], program: str, argument: str) -> str:
    """What a Python program prints in the user's server."""
    (pod,) = (found["metadata"]["name"] for found in ada.user.pods())
    command = ("exec", f"--namespace={NAMESPACE.name}", pod, "--container=notebook", "--", "python3", "-c", program)
    return kubectl(*command, argument).strip()
