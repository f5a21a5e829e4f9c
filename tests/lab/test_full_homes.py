"""The volume with the homes is full: the notebook, JupyterLab, `strata status` and the alert report it, and a user can
still start a server, a kernel and a terminal to delete files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from strata.catalogue.issuer import Issuer
from strata.models.site import Site
from strata.observe.metrics import metrics_of
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata_bench.waiting import eventually
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE
from strata_services.jupyterhub.user import User, new_user
from strata_services.prometheus_server.service import SERVICE as PROMETHEUS

from .commands import strata_json
from .lab_site import homes_volume, require_lab
from .scarce import fill, full, make_space, run

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

USER = "full-ada"
SECONDS = 300.0
FILE = "strata-full.bin"
WRITE = f"""
import errno, json, os, pathlib
file, outcome = pathlib.Path.home() / {FILE!r}, None
try:
    with open(file, "wb") as stream:
        for _ in range(64):
            stream.write(bytes(1 << 20))
        os.fsync(stream)
except OSError as error:
    outcome = [error.errno == errno.ENOSPC, error.strerror]
print(json.dumps([outcome, file.stat().st_size]))
"""
DELETE = f"import pathlib; (pathlib.Path.home() / {FILE!r}).unlink()"


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to fill."""
    require_lab(context)
    if SERVICE.of(site) is None or not site.platform.tenants:
        pytest.skip(f"site {site.name} has no notebooks, or no tenants")


@pytest.fixture
def user(context: SiteContext, own_issuer: Issuer, kubectl: Callable[..., str]) -> Iterator[User]:
    """A member of the first tenant, logged in."""
    with new_user(context, kubectl, USER, context.site.platform.tenants[0].name) as (made, password):
        made.log_in(own_issuer, password)
        yield made


def start(context: SiteContext, user: User) -> Server:
    """The user's server, running."""
    notebooks = SERVICE.of(context.site)
    assert notebooks is not None
    user.request_server(notebooks.profiles[0].name)
    user.wait_for_server(notebooks.start_seconds)
    return Server(user.http, user.hub.removeprefix("https://").rstrip("/"), USER, user.token())


def request(server: Server, method: str, path: str) -> dict[str, Any]:
    """The answer of the user's server, as JupyterLab requests it."""
    answer = server.http.request(
        method,
        f"https://{server.host}/user/{server.user}/{path}",
        headers={"Authorization": f"token {server.token}"},
        timeout=SECONDS,
    )
    assert answer.ok, answer.text
    body: dict[str, Any] = answer.json()
    return body


def notice(server: Server) -> str | None:
    """What JupyterLab shows about the home."""
    text: str | None = request(server, "GET", "strata/api/culling")["full"]
    return text


def test_full_homes(context: SiteContext, user: User, site_host: Callable[[str], Host]) -> None:
    name = hosts_with("nfs_server", context.site, context.cloud_outputs)[0].name
    host, volume = site_host(name), homes_volume(context.site)
    server = start(context, user)
    assert notice(server) is None
    with ExitStack() as stack:
        stack.callback(host.run, f"rm -f '{volume}/{USER}/{FILE}'")
        stack.enter_context(full(host, str(volume)))
        outcome, _ = json.loads(server.run(context, WRITE))
        assert outcome == [True, "No space left on device"]

        status, answer, error = strata_json(context, "status", "--no-drift")
        assert status == 1, error
        shown = {o["object"]: o["found"] for o in answer["objects"]}
        assert f"{volume} (0 B of " in shown[f"{name}: room"]
        if PROMETHEUS.of(context.site) is not None:
            source = metrics_of(context)
            assert source is not None
            # pending for 10 minutes, then firing
            alert = f'ALERTS{{alertname="DiskAlmostFull", node="{name}", mountpoint="{volume}"}}'
            eventually(lambda: bool(source.query(alert)), SECONDS, "Prometheus evaluates the alert")

        user.stop()
        # as that of a new user, whose IPython has no block for its directories
        run(host, f"rm -r '{volume}/{USER}/.ipython'")
        fill(host, str(volume))
        server = start(context, user)
        text = notice(server)
        assert text is not None
        assert text.startswith("The volume with the homes of all users has no space left."), text
        assert request(server, "POST", "api/terminals")["name"]
        server.run(context, DELETE)
        make_space(host, str(volume))
        assert json.loads(server.run(context, WRITE)) == [None, 64 << 20]
        server.run(context, DELETE)
    eventually(lambda: strata_json(context, "status", "--no-drift")[0] == 0, SECONDS, "the site is healthy again")
