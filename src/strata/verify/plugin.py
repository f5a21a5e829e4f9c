"""pytest plugin with the fixtures that the checks use."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import ansible  # noqa: F401 - first: pytest would take the folder of that name, below which checks are, for it
import pytest
import requests
import testinfra

from strata.access.commands import run_command
from strata.access.https import site_session
from strata.access.kubectl import run_kubectl
from strata.access.openstack import connect
from strata.access.route import ROOT, route
from strata.access.ssh import host_addresses
from strata.access.users import Account, add_user, remove_user
from strata.catalogue.site_services import installed, issuer
from strata.models.site import Site
from strata.role_modules import checks_folder
from strata.roles import roles
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore
from strata.site_file.inventories import find_site
from strata.verify.needs import EXTERNAL_TOKEN, INAPPLICABLE, missing
from strata.verify.tokens import NewUser, client_token
from strata.verify.waiting import settled

ISSUER_START_SECONDS = 300
"""In which the site's own issuer has answered after its first start, which `up` may not have waited for."""

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

    from strata.catalogue.issuer import Issuer


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--strata-site`."""
    parser.addoption("--strata-site", default=None, help="name or path of the running site to verify")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark of the tests that need a running site, and that of what checks need of it."""
    config.addinivalue_line("markers", "lab: needs the running site; set here, never by hand")
    config.addinivalue_line("markers", "needs(*needs): what a site must declare (strata.verify.needs); else skipped")


def needs_site(item: pytest.Item) -> bool:
    """Whether a test asks for the running site."""
    info = getattr(item, "_fixtureinfo", None)  # a test may have a fixture of that name of its own
    definitions = info.name2fixturedefs.get("context") if info else None
    return definitions[-1].func.__module__ == __name__ if definitions else False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets the mark `lab`."""
    for item in items:
        if needs_site(item):
            item.add_marker(pytest.mark.lab)


_CONTEXT = pytest.StashKey[SiteContext]()


def _context(config: pytest.Config) -> SiteContext:
    """The site that a run is about, read once."""
    if _CONTEXT not in config.stash:
        name = config.getoption("--strata-site") or os.environ.get("STRATA_TEST_SITE") or "lab"
        config.stash[_CONTEXT] = SiteContext.load(find_site(str(name)))
    return config.stash[_CONTEXT]


@pytest.hookimpl(tryfirst=True)  # before the fixtures connect to what the site does not have
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a check of something that the site does not declare."""
    if item.get_closest_marker("needs") is None:
        return
    site = _context(item.config).site
    if need := missing(item, site):
        item.stash[INAPPLICABLE] = True
        pytest.skip(f"site {site.name} has no {need.what}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A check that declares what it needs, has all of it, and skips itself nevertheless has failed."""
    report = yield
    if report.skipped and INAPPLICABLE not in item.stash and item.get_closest_marker("needs") is not None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"not checked, although site.yaml declares it: {reason.removeprefix('Skipped: ')}"
    return report


@pytest.fixture(scope="session")
def context(request: pytest.FixtureRequest) -> SiteContext:
    """The site under proof, the lab unless another is named; skips where it does not run."""
    site_context = _context(request.config)
    if site_context.cloud_outputs is None and site_context.site.cloud is not None:
        name = site_context.site.name
        pytest.skip(f"site {name} is not up: `strata up {name}`")
    return site_context


@pytest.fixture(scope="session")
def site(context: SiteContext) -> Site:
    """The site model."""
    return context.site


@pytest.fixture(scope="session")
def paths(context: SiteContext) -> SitePaths:
    """The site's state files."""
    return context.paths


@pytest.fixture(scope="session")
def secrets(context: SiteContext) -> SecretStore:
    """The site's secrets."""
    return context.secrets


@pytest.fixture(scope="module")
def cloud_outputs(context: SiteContext) -> CloudOutputs | None:
    """What the cloud layer made; None on a site of machines."""
    return context.cloud_outputs


@pytest.fixture(scope="module")
def images(context: SiteContext) -> ImageOutputs:
    """The pushed images."""
    outputs = context.image_outputs
    if outputs is None:
        pytest.skip(f"site {context.site.name} has no images yet: `strata up {context.site.name}`")
    return outputs


@pytest.fixture(scope="session")
def ssh_config(context: SiteContext) -> Iterator[str]:
    """Path of a configuration for OpenSSH, good for every machine of the site."""
    # a socket's path holds 108 bytes, of which pytest's own directories leave too few
    with tempfile.TemporaryDirectory(prefix="strata-") as directory:
        config = Path(directory, "config")
        config.write_text(_ssh_options(context, directory))
        yield str(config)
        # shared connections, which would outlive the checks by 30 s
        for control in Path(directory).iterdir():
            if control.is_socket():
                run_command(["ssh", "-q", "-O", "exit", "-o", f"ControlPath={control}", "any"])


def _ssh_options(context: SiteContext, directory: str) -> str:
    lines = [
        f"IdentityFile {context.paths.ssh_key}",
        f"UserKnownHostsFile {context.paths.known_hosts}",
        "StrictHostKeyChecking accept-new",
        "BatchMode yes",
        "LogLevel ERROR",
        "ControlMaster auto",
        f"ControlPath {directory}/%C",
        "ControlPersist 30",
        # the host at the other end may be killed by a test
        "ServerAliveInterval 5",
        "ServerAliveCountMax 4",
    ]
    ways = []
    for address in host_addresses(context).values():
        if settings := route(context.site, context.cloud_outputs, context.paths, address):
            ways.append(f"Host {address}\n" + "".join(f"  {setting.replace('=', ' ', 1)}\n" for setting in settings))
    return "".join([*ways, "Host *\n", *(f"  {line}\n" for line in lines)])


@pytest.fixture(scope="session")
def site_host(context: SiteContext, ssh_config: str) -> Callable[[str], Host]:
    """The checks' `host`: `host("services-1")` → testinfra's Host, over SSH, as root."""
    user = context.site.hosts.ssh_user

    def connect(name: str) -> Host:
        address = host_addresses(context)[name]
        return testinfra.get_host(f"ssh://{user}@{address}", ssh_config=ssh_config, sudo=user != ROOT)

    return connect


@pytest.fixture(scope="module")  # another module's test may have changed the password
def cloud(context: SiteContext) -> Iterator[Connection]:
    """OpenStack as its administrator."""
    if context.site.cloud is None:
        pytest.skip(f"site {context.site.name} has no cloud")
    with connect(context) as connection:
        yield connection


@pytest.fixture(scope="session")
def kubectl(context: SiteContext) -> Callable[..., str]:
    """`kubectl("get", "nodes", "-o", "json", input=None)` → its output; raises with its output."""

    def call(*arguments: str, input: str | None = None, check: bool = True, timeout: float = 120) -> str:
        done = run_kubectl(context, *arguments, text=input, seconds=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    return call


@pytest.fixture(scope="module")
def http(context: SiteContext) -> Iterator[requests.Session]:
    """A session that trusts the site's authority and finds its names at the load balancer."""
    context.secrets.ensure_ca()
    with site_session(context) as session:
        yield session


@pytest.fixture(scope="module")
def issuer_token(context: SiteContext, http: requests.Session) -> Callable[[str], str]:
    """`issuer_token("notes")` → a token of the site's issuer for that audience, or the operator's from
    an external issuer."""

    def get(audience: str) -> str:
        site = context.site
        if site.platform.services.external_issuer is not None:
            if not any(secret.name == EXTERNAL_TOKEN for secret in site.secrets):
                entry = f"{{name: {EXTERNAL_TOKEN}, source: environment}}"
                pytest.skip(f"tokens come from outside of site {site.name}: provide one by secrets: [{entry}]")
            return context.secrets.get(EXTERNAL_TOKEN)
        own = issuer(site)
        if own is None:
            pytest.skip(f"site {site.name} has no issuer of tokens")
        return client_token(http, own, context.secrets.get(own.client_secret), audience)

    return get


@pytest.fixture(scope="module")
def own_issuer(site: Site, http: requests.Session) -> Issuer:
    """The site's own issuer of tokens, once it answers."""
    own = issuer(site)
    if own is None:
        pytest.skip(f"site {site.name} has no issuer of its own")

    def status() -> int:
        return http.get(own.url, timeout=30).status_code

    assert settled(status, lambda status: status == 200, ISSUER_START_SECONDS, pause=1) == 200, own.url
    return own


@pytest.fixture(scope="module")
def new_user(context: SiteContext, own_issuer: Issuer) -> Iterator[NewUser]:
    """`new_user(tenant)` → name and first password of a user of the site's own issuer, who goes with the module."""
    if own_issuer.users is None:
        pytest.skip(f"the users of site {context.site.name} are not Strata's")
    names = []

    def add(tenant: str) -> tuple[str, str]:
        name = f"check-{uuid.uuid4().hex[:8]}"
        names.append(name)
        return name, add_user(context, Account(name, f"{name}@{context.site.domain}", (tenant,)))

    yield add
    for name in names:
        remove_user(context, name)


@pytest.fixture(scope="session")
def can_connect() -> Callable[[str, int], bool]:
    """`can_connect(address, port)` → whether TCP connects within 2 s."""

    def connect(address: str, port: int) -> bool:
        ipaddress.ip_address(address)
        try:
            with socket.create_connection((address, port), timeout=2):
                return True
        except OSError:
            return False

    return connect


CHECKS = Path(__file__).parent / "checks"


def check_paths(site: Site) -> list[Path]:
    """The checks of the platform, of all roles, and of the site's services."""
    of_roles = (checks_folder(role) for role in roles())
    own = (*of_roles, *(service.folder / "checks" for service in installed(site)))
    return [CHECKS, *(path for path in own if path.is_dir())]
