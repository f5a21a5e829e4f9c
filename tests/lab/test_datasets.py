"""Datasets in a member's notebook: from HTTPS, S3 and NFS, optional ones that are missing, a required one that is."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from testinfra.host import Host

from strata.catalogue.issuer import Issuer
from strata.catalogue.needs.bucket import SECRET_KEY, bucket_key
from strata.catalogue.site_services import s3_endpoint
from strata.catalogue.site_volumes import export_paths
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata_bench.waiting import eventually
from strata_services.jupyterhub.needs import NAMESPACE
from strata_services.jupyterhub.service import SERVICE
from strata_services.jupyterhub.user import PAGE_SECONDS, User, new_user
from strata_services.object_storage.client import request

pytestmark = pytest.mark.nightly
NAME = "datasets-ada"
"""Always the same: JupyterHub keeps a record of each user who ever logged in."""
GOOD, MISSING, BUCKET, FOLDER = (f"strata-test-{kind}" for kind in ("good", "missing", "bucket", "folder"))
CONTENT = b"length,width\n5.1,3.5\n"
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
files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.is_file()}
print(json.dumps({"files": files, "written": written, "link": os.path.realpath(pathlib.Path.home() / "datasets")}))
"""
ENVIRONMENT = """
import os, sys
print("yes" if sys.argv[1] in str(dict(os.environ)) else "no")
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
    token: str = field(repr=False)
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
        administrator = Administrator(user, tenant, user.token(), settings.profiles[0].name)
        for name in (GOOD, MISSING, BUCKET, FOLDER):
            stack.callback(administrator.delete, name)
        stack.callback(administrator.stop)
        administrator.stop()
        yield administrator


def test_an_unreachable_dataset_is_named_and_ends_the_start_only_if_it_is_required(
    ada: Administrator, kubectl: Callable[..., str]
) -> None:
    """On the page of the start; the folder of an optional one reports it too."""
    ada.register(MISSING, source=NOWHERE)
    begin = time.monotonic()
    events = ada.start()
    print(f"server without an optional dataset: {time.monotonic() - begin:.1f} s")
    assert any(event["message"].startswith(f"Unreachable datasets: {MISSING}: ") for event in events), events
    assert events[-1].get("ready"), events[-1]
    dataset = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{MISSING}"))
    assert list(dataset["files"]) == ["UNREACHABLE.txt"]
    assert (dataset["written"], dataset["link"]) == ("Read-only file system", "/datasets")
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
    content = ada.user.http.get(f"{ada.user.hub}hub/logo", timeout=PAGE_SECONDS).content
    digest = hashlib.sha256(content).hexdigest()
    ada.register(GOOD, source=f"{ada.user.hub}hub/logo", sha256=digest, required=True)
    events = ada.start()
    assert events[-1].get("ready"), events[-1]
    dataset = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{GOOD}"))
    assert (dataset["files"], dataset["written"]) == ({"logo": digest}, "Read-only file system")


def test_the_tenants_bucket_and_a_folder_on_nfs_are_in_the_notebook(
    ada: Administrator, context: SiteContext, kubectl: Callable[..., str], site_host: Callable[[str], Host]
) -> None:
    """Read-only; objects that are missing do not stop the start, and the notebook has no key."""
    endpoint, settings = s3_endpoint(context.site), SERVICE.of(context.site)
    folders = [
        folder
        for folder in (settings.datasets.nfs if settings else ())
        if not folder.server and (not folder.tenants or ada.tenant in folder.tenants)
    ]
    if endpoint is None or not folders:
        pytest.skip(f"site {context.site.name} has no S3 endpoint, or no datasets.nfs of tenant {ada.tenant}")
    folder, key = folders[0], bucket_key(context.secrets, endpoint, ada.tenant)
    path = f"{ada.tenant}/{BUCKET}/below/iris.csv"
    export = export_paths(context.site)[folder.path.parts[1]].joinpath(*folder.path.parts[2:])
    server = site_host(hosts_with("nfs_server", context.site, context.cloud_outputs)[0].name)
    digest = hashlib.sha256(CONTENT).hexdigest()
    with ExitStack() as stack:
        assert request(ada.user.http, endpoint, key, "PUT", path, CONTENT).status_code == 200
        stack.callback(request, ada.user.http, endpoint, key, "DELETE", path)
        server.check_output("printf %%s %s > %s", CONTENT.decode(), f"{export}/{FOLDER}")
        stack.callback(server.check_output, "rm %s", f"{export}/{FOLDER}")
        ada.register(BUCKET, source=f"s3://{ada.tenant}/{BUCKET}/", required=True)
        ada.register(MISSING, source=f"s3://{ada.tenant}/{MISSING}/")
        ada.register(FOLDER, source=f"nfs://{folder.name}", required=True)
        begin = time.monotonic()
        events = ada.start()
        print(f"server with a bucket and a folder: {time.monotonic() - begin:.1f} s")
        assert events[-1].get("ready"), events
        named = f"Unreachable datasets: {MISSING}: no object has the prefix"
        assert named in [event["message"] for event in events], events
        dataset = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{BUCKET}/below"))
        assert (dataset["files"], dataset["written"]) == ({"iris.csv": digest}, "Read-only file system")
        dataset = json.loads(in_notebook(ada, kubectl, LOOK, f"/datasets/{FOLDER}"))
        assert (dataset["files"].get(FOLDER), dataset["written"]) == (digest, "Read-only file system")
        assert in_notebook(ada, kubectl, ENVIRONMENT, key[SECRET_KEY]) == "no"
        ada.stop()


def in_notebook(ada: Administrator, kubectl: Callable[..., str], program: str, argument: str) -> str:
    """What a Python program prints in the user's server."""
    (pod,) = (pod["metadata"]["name"] for pod in ada.user.pods())
    command = ("exec", f"--namespace={NAMESPACE.name}", pod, "--container=notebook", "--", "python3", "-c", program)
    return kubectl(*command, argument).strip()
