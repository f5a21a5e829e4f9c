"""A user's way in and out, in a real browser: front page, issuer, a notebook, its job, logout; accounting has both."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.common.keys import Keys

from strata.catalogue.published import PublishedService, published
from strata.catalogue.site_services import issuer
from strata.site.context import SiteContext
from strata.verify.waiting import settled
from strata_bench.browser import Browser
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.needs import NAMESPACE
from strata_services.jupyterhub.service import SERVICE

from .batch import submission
from .commands import accounted, strata
from .site_browser import site_browser

Kubectl = Callable[..., str]
USER = "login-test"
"""Always the same name: JupyterHub keeps a record of each user who ever logged in."""
JOB_OUTPUT = "42042"
SECONDS = 120.0
"""The longest wait for one page on a loaded machine."""
JOB_SECONDS = 400.0
"""Of a short job from its submission to its end, with a new execution point."""
RECORDED_SECONDS = 300.0
"""Until accounting has read what ended."""
FETCH = """
this = f"ClusterId == {job.cluster()}"
while schedd.query(this, ["JobStatus"])[0]["JobStatus"] != 4:
    time.sleep(0.5)
schedd.retrieve(this)
print(pathlib.Path("out").read_text())
"""
"""Waits for the job, and prints its output."""
LABEL = f"--selector=hub.jupyter.org/username={USER}"


@pytest.fixture
def hub(context: SiteContext) -> PublishedService:
    own = issuer(context.site)
    if own is None or own.users is None:
        pytest.skip(f"site {context.site.name} has no users of its own")
    services = {service.key: service for service in published(context.site)}
    if SERVICE.key not in services or not any(service.hostname == "" for service in services.values()):
        pytest.skip(f"site {context.site.name} has no notebooks or no front page")
    return services[SERVICE.key]


@pytest.fixture
def password(context: SiteContext, hub: PublishedService, kubectl: Kubectl) -> Iterator[str]:
    """Of a new user, for the first login; user and server are gone afterwards."""
    assert hub
    strata("users", "remove", context.site_file, USER, "--yes")  # of an interrupted run
    tenants = (argument for tenant in context.site.platform.tenants[:1] for argument in ("--tenant", tenant.name))
    added = strata("users", "add", context.site_file, USER, *tenants)
    assert added.returncode == 0, added.stderr
    yield added.stdout.strip()
    kubectl("delete", "pods", "--namespace", NAMESPACE.name, LABEL, "--ignore-not-found")
    removed = strata("users", "remove", context.site_file, USER, "--yes")
    assert removed.returncode == 0, removed.stderr


@pytest.fixture
def window(context: SiteContext, hub: PublishedService) -> Iterator[Browser]:
    """A browser at the site."""
    with site_browser(context, hub.host) as opened:
        yield opened


def computed(window: Browser, code: str) -> str:
    """What the first cell of the notebook that is open prints."""
    cell = window.find(".jp-Notebook .cm-content", SECONDS)
    cell.send_keys(code)

    def printed() -> str:
        # JupyterLab ignores it until the kernel is connected
        cell.send_keys(Keys.CONTROL, Keys.ENTER)
        return window.find(".jp-Notebook .jp-OutputArea-output pre", 5).text.strip()

    return settled(printed, bool, SECONDS, pause=1)


def output_of_job(window: Browser) -> str:
    """What the notebook prints once its job has run in the batch system; the kernel is connected."""
    cell = window.find(".jp-Notebook .cm-content", SECONDS)
    cell.click()
    # one line without an indentation or a bracket that JupyterLab would add to
    code = submission("/usr/bin/expr", "6 * 7007") + FETCH
    cell.send_keys(Keys.CONTROL, "a", Keys.NULL, f"exec(bytes.fromhex('{code.encode().hex()}'))")
    cell.send_keys(Keys.CONTROL, Keys.ENTER)

    def printed() -> str:
        return window.find(".jp-Notebook .jp-OutputArea-output pre", 5).text.strip()

    return settled(printed, lambda text: text == JOB_OUTPUT, JOB_SECONDS, pause=1)


def recorded(context: SiteContext, begin: datetime) -> dict[str, int]:
    """The user's notebooks and jobs that accounting has."""
    work = accounted(context, begin)["work"]
    return {
        "notebooks": sum(row["tasks"] for row in work if row["username"] == USER and row["kind"] == "notebook"),
        "jobs": sum(row["tasks"] for row in work if row["username"] == USER and row["level"] == "job"),
    }


def open_notebook(window: Browser, url: str) -> None:
    """Clicks the launcher's first notebook; loads a page that a busy machine left half loaded again."""
    card = '.jp-LauncherCard[data-category="Notebook"]'
    for _ in range(2):
        try:
            window.find(card, SECONDS).click()
        except TimeoutException:
            window.visit(url)
        else:
            return
    window.find(card, SECONDS).click()


def test_user_logs_in_computes_and_logs_out(
    context: SiteContext, hub: PublishedService, password: str, window: Browser, kubectl: Kubectl
) -> None:
    """Where the site has a batch system, the notebook's job runs there, and accounting has both."""
    begin = datetime.now(UTC)
    window.visit(f"https://{context.site.domain}/")
    window.find(f'a[href^="https://{hub.host}/"]', SECONDS).click()

    window.find("#username", SECONDS).send_keys(USER)
    window.find("#password", SECONDS).send_keys(password, Keys.ENTER)
    chosen = secrets.token_urlsafe(16)
    window.find("#password-new", SECONDS).send_keys(chosen)
    window.find("#password-confirm", SECONDS).send_keys(chosen, Keys.ENTER)

    window.find("#spawn_form [type=submit]", SECONDS)
    # a workspace of its own: JupyterLab opens what an earlier run left in the home
    # the first profile is chosen already
    workspace = f"/user/{USER}/lab/workspaces/{secrets.token_hex(4)}"
    window.visit(f"{hub.url}hub/spawn?next={quote(workspace, safe='')}")
    window.find("#spawn_form [type=submit]", SECONDS).click()
    open_notebook(window, f"{hub.url.rstrip('/')}{workspace}")
    assert computed(window, "print(6 * 7 * 1001 + 1)") == str(6 * 7 * 1001 + 1)
    batch = HTCONDOR.of(context.site) is not None
    if batch:
        assert output_of_job(window) == JOB_OUTPUT

    window.visit(f"{hub.url}hub/home")
    window.find("#stop", SECONDS)

    def servers() -> str:
        with contextlib.suppress(WebDriverException):  # the page's script may not have come yet; it hides the button
            window.find("#stop", 5).click()
        return kubectl("get", "pods", "--namespace", NAMESPACE.name, LABEL, "--output=name")

    assert settled(servers, lambda output: not output, 2 * SECONDS, pause=2) == ""
    window.visit(f"{hub.url}hub/logout")
    confirm = window.find("#kc-logout", SECONDS)
    confirm.click()
    window.wait_until_left(confirm, SECONDS, "the issuer does not respond to the logout")
    # neither the hub nor the issuer knows the browser any longer
    window.visit(hub.url)
    window.find("#password", SECONDS)
    if batch and ACCOUNTING.of(context.site) is not None:
        expected = {"notebooks": 1, "jobs": 1}
        assert (
            settled(lambda: recorded(context, begin), lambda events: events == expected, RECORDED_SECONDS, pause=3)
            == expected
        )
