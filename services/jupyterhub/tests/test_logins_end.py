"""Rights that end at the issuer, in a real JupyterHub with the real OAuthenticator."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.catalogue.service import Service
from strata_bench.services import PostgreSQL
from strata_bench.waiting import eventually
from strata_services.jupyterhub.needs import VERIFY_USER
from strata_services.jupyterhub.service import SERVICE
from strata_services.jupyterhub.values import CHECK_SECONDS, REFRESH_SECONDS, SILENCE_SECONDS

from .image_code import notebook_server, run_code
from .issuer import Issuer
from .running_hub import LEAVING_TOKEN, Hub, Pool, started

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
SHORT_REFRESH, SHORT_SILENCE, SHORT_CHECK = 1, 4, 3
"""In place of the hub's times, in seconds."""
MEMBER, ADMINISTRATOR = "/tenants/research", "/tenants/research/admins"
CONFIGURATION = "/api/tenants/research/configuration/tenant"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    fake = Issuer({})
    with fake.running():
        yield fake


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[dict[str, Any]]:
    """The hub and what ends it; before its database."""
    assert postgresql
    kept: dict[str, Any] = {}
    yield kept
    if kept:
        kept["context"].__exit__(None, None, None)


@pytest.fixture
def hub(
    hubs: dict[str, Any],
    issuer: Issuer,
    postgresql: PostgreSQL,
    tmp_path_factory: pytest.TempPathFactory,
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
    lab: Path,
) -> Hub:
    """The lab's hub with the issuer, and with short times."""
    if not hubs:
        directory = tmp_path_factory.mktemp("hub")
        values = values_of(SERVICE, lab)
        assert values["hub"]["config"]["Authenticator"]["auth_refresh_age"] == REFRESH_SECONDS
        values["hub"]["config"]["Authenticator"]["auth_refresh_age"] = SHORT_REFRESH
        assert values["custom"]["login"]["silence_seconds"] == SILENCE_SECONDS
        values["custom"]["login"]["silence_seconds"] = SHORT_SILENCE
        assert values["custom"]["login"]["check_seconds"] == CHECK_SECONDS
        values["custom"]["login"]["check_seconds"] = SHORT_CHECK
        context = started(values, directory, postgresql, Pool(directory), "jupyterhub_logins", issuer)
        hubs |= {"hub": context.__enter__(), "context": context}
    issuer.down = issuer.rotating = False
    issuer.lifetime, issuer.pause = 900, 0
    issuer.disabled.clear()
    running: Hub = hubs["hub"]
    return running


def log_in(hub: Hub, issuer: Issuer, user: str, *groups: str) -> requests.Session:
    """A browser of the user, who is in these groups."""
    issuer.groups[user], issuer.user = list(groups), user
    browser = requests.Session()
    page = browser.get(f"{hub.url}/oauth_login", timeout=60)
    assert page.url.startswith(hub.url), page.url
    return browser


def later() -> None:
    """The hub's knowledge of users is older than it may be."""
    time.sleep(SHORT_REFRESH + 0.1)


def put(hub: Hub, token: str) -> int:
    return hub.call(token, "PUT", CONFIGURATION, {"cpu_limit": 1}).status_code


def start(hub: Hub, user: str) -> requests.Response:
    (hub.directory / f"{user}.pod").unlink(missing_ok=True)
    return hub.call(hub.operator, "POST", f"/api/users/{user}/server", {"profile": "standard"})


def server_token(hub: Hub, user: str) -> str:
    return hub.token(user, scopes=[f"access:servers!server={user}/", f"users:activity!user={user}"])


def test_removed_administrator_configures_nothing(hub: Hub, issuer: Issuer) -> None:
    log_in(hub, issuer, "ada", MEMBER, ADMINISTRATOR)
    token = hub.token("ada")
    assert put(hub, token) == 200
    issuer.groups["ada"].remove(ADMINISTRATOR)
    later()
    assert put(hub, token) == 403
    assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 200, "still a member"
    issuer.groups["ada"].append(ADMINISTRATOR)
    later()
    assert put(hub, token) == 200, "and a right that is granted is there without a login"


def test_groups_are_read_once_in_the_time(hub: Hub, issuer: Issuer) -> None:
    log_in(hub, issuer, "often", MEMBER)
    token = hub.token("often")
    issuer.requests.clear()
    for _ in range(5):
        assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 200
    assert len(issuer.requests) <= 1


def test_moved_user_has_the_new_tenants_server_at_once(hub: Hub, issuer: Issuer) -> None:
    """A start does not wait for the time."""
    log_in(hub, issuer, "bob", MEMBER)
    assert hub.pod("bob")["metadata"]["labels"]["strata.dev/tenant"] == "research"
    token = hub.token("bob")
    issuer.groups["bob"] = ["/tenants/teaching"]
    assert hub.pod("bob")["metadata"]["labels"]["strata.dev/tenant"] == "teaching"
    assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 403
    assert hub.call(token, "GET", "/api/tenants/teaching/datasets").status_code == 200


def test_page_of_a_start_waits_for_the_issuer(hub: Hub, issuer: Issuer) -> None:
    """Which takes long when many users start servers at once."""
    browser = log_in(hub, issuer, "slow", MEMBER)
    issuer.pause = 2
    issuer.requests.clear()
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start, hub, "slow")
        eventually(lambda: issuer.requests, 60, "the hub asks the issuer", pause=0.01)
        page = browser.get(f"{hub.url}/spawn-pending/slow", timeout=60)
        started.result()
    assert "is not running" not in page.text
    assert (hub.directory / "slow.pod").exists()


def test_user_of_no_tenant_starts_nothing(hub: Hub, issuer: Issuer) -> None:
    browser = log_in(hub, issuer, "carol", MEMBER)
    token = hub.token("carol")
    issuer.groups["carol"] = []
    response = start(hub, "carol")
    assert response.status_code == 403, response.text
    assert not (hub.directory / "carol.pod").exists()
    later()
    assert hub.call(token, "GET", "/api/user").status_code == 403
    assert browser.get(f"{hub.url}/home", timeout=60).status_code == 403, "and a new login is refused"


def test_disabled_user_starts_nothing(hub: Hub, issuer: Issuer) -> None:
    browser = log_in(hub, issuer, "dave", MEMBER)
    token = hub.token("dave")
    assert browser.get(f"{hub.url}/home", timeout=60).url == f"{hub.url}/home"
    issuer.disabled.add("dave")
    response = start(hub, "dave")
    assert response.status_code == 403, response.text
    assert "login again" in response.json()["message"]
    assert not (hub.directory / "dave.pod").exists()
    later()
    assert hub.call(token, "POST", "/api/users/dave/server", {"profile": "standard"}).status_code == 403
    page = browser.get(f"{hub.url}/home", allow_redirects=False, timeout=60)
    assert (page.status_code, page.headers["Location"].partition("?")[0]) == (302, "/hub/login")
    issuer.disabled.clear()
    log_in(hub, issuer, "dave", MEMBER)
    assert hub.pod("dave")["metadata"]["labels"]["strata.dev/tenant"] == "research"


def test_user_who_leaves_has_no_session_and_no_token(hub: Hub, issuer: Issuer) -> None:
    """By the rights of `strata users remove`; the same name later starts without them."""
    browser = log_in(hub, issuer, "leo", MEMBER)
    token = hub.token("leo")
    assert browser.get(f"{hub.url}/home", timeout=60).url == f"{hub.url}/home"
    assert hub.call(LEAVING_TOKEN, "DELETE", "/api/users/leo").status_code == 204
    for _ in range(2):
        assert hub.call(token, "GET", "/api/user").status_code == 403
        page = browser.get(f"{hub.url}/home", allow_redirects=False, timeout=60)
        assert (page.status_code, page.headers["Location"].partition("?")[0]) == (302, "/hub/login")
        log_in(hub, issuer, "leo", MEMBER)


def test_former_administrator_of_the_hub_is_none(hub: Hub, issuer: Issuer) -> None:
    """One whom site.yaml named before the hub started with this configuration."""
    user = "INSERT INTO users (name, admin, cookie_id) VALUES ('root', true, 'of-root')"
    hub.server.sql(user, hub.database)
    assert hub.call(hub.operator, "GET", "/api/users/root").json()["admin"] is True
    log_in(hub, issuer, "root", MEMBER)
    assert hub.call(hub.token("root"), "GET", "/api/users").status_code == 403
    assert hub.call(hub.operator, "GET", "/api/users/root").json()["admin"] is False


@pytest.mark.parametrize("rotating", [False, True], ids=["same refresh token", "new refresh tokens"])
def test_rights_outlive_the_access_token(hub: Hub, issuer: Issuer, rotating: bool) -> None:
    """Ten requests at once, of which one may use the refresh token."""
    issuer.lifetime, issuer.rotating = 0.5, rotating
    log_in(hub, issuer, "eve", MEMBER)
    token = hub.token("eve")
    for _ in range(2):
        later()
        with ThreadPoolExecutor(10) as pool:
            paths = ["/api/tenants/research/datasets"] * 10
            statuses = [response.status_code for response in pool.map(lambda path: hub.call(token, "GET", path), paths)]
        assert statuses == [200] * 10


def test_computation_outlives_the_login(hub: Hub, issuer: Issuer) -> None:
    """The server reports activity, so that it is not culled; it has no other right."""
    log_in(hub, issuer, "frank", MEMBER)
    token = server_token(hub, "frank")
    issuer.end_sessions()
    later()
    for _ in range(2):
        report = hub.call(token, "POST", "/api/users/frank/activity", {"last_activity": "2026-01-01T00:00:00Z"})
        assert report.status_code == 200, report.text
        assert hub.call(token, "GET", "/api/users/frank/culling").status_code == 404, "no server runs"
        response = hub.call(token, "POST", "/api/users/frank/batch-token")
        assert (response.status_code, response.json()["message"]) == (
            401, "the login of frank has ended; fix: log in to JupyterHub again",
        )  # fmt: skip
    other = hub.call(token, "POST", "/api/users/ada/activity", {"last_activity": "2026-01-01T00:00:00Z"})
    assert other.status_code == 404
    log_in(hub, issuer, "frank", MEMBER)
    assert hub.call(token, "POST", "/api/users/frank/batch-token").status_code == 503, "the pool is down"


def test_silent_issuer_ends_rights_after_a_time(hub: Hub, issuer: Issuer) -> None:
    log_in(hub, issuer, "grace", MEMBER)
    token = hub.token("grace")
    begin = time.monotonic()
    issuer.down = True
    later()
    assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 200
    assert start(hub, "grace").status_code != 503
    assert (hub.directory / "grace.pod").exists()
    time.sleep(max(0.0, begin + SHORT_SILENCE + SHORT_REFRESH + 0.2 - time.monotonic()))
    assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 403
    response = start(hub, "grace")
    assert response.status_code == 503, response.text
    assert response.json()["message"].startswith("The site's login does not respond")
    assert not (hub.directory / "grace.pod").exists()
    issuer.down = False
    assert hub.call(token, "GET", "/api/tenants/research/datasets").status_code == 200


def test_checks_have_a_server_without_an_account(hub: Hub) -> None:
    assert hub.pod(VERIFY_USER)


def test_user_who_never_logged_in_starts_nothing(hub: Hub) -> None:
    hub.token("heidi")
    assert start(hub, "heidi").status_code == 403


def test_no_one_logs_in_as_the_user_of_the_checks(hub: Hub, issuer: Issuer) -> None:
    """An issuer of others may have an account with that name."""
    issuer.groups[VERIFY_USER], issuer.user = [MEMBER], VERIFY_USER
    assert requests.get(f"{hub.url}/oauth_login", timeout=60).status_code == 403


def test_a_login_that_ends_in_the_queue_starts_nothing(hub: Hub, issuer: Issuer) -> None:
    """One server may run at a time; meanwhile the next user's account is disabled."""
    for user in ("bob", "dora"):
        log_in(hub, issuer, user, MEMBER)
    with ExitStack() as stack:
        port = stack.enter_context(notebook_server())
        for name, text in (("maximum", "1"), ("bob.address", str(port))):
            (hub.directory / name).write_text(text)
            stack.callback((hub.directory / name).unlink)
        assert start(hub, "bob").status_code in (201, 202)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(start, hub, "dora")
            path = "/api/users/dora"
            eventually(lambda: hub.call(hub.operator, "GET", path).json()["pending"], 60, "dora's server waits")
            issuer.disabled.add("dora")
            hub.call(hub.operator, "DELETE", "/api/users/bob/server")
            assert "Your login ended while your server waited" in answer.result().text
    assert not (hub.directory / "dora.pod").exists()


@pytest.fixture
def running(hub: Hub) -> Iterator[Callable[[str, str], str]]:
    """`running("ada", "research")` → a token of a user with a running server of that tenant."""
    with ExitStack() as stack:
        stack.enter_context(hub.pool.running())
        port = stack.enter_context(notebook_server())

        def start_server(user: str, tenant: str) -> str:
            pod = {"metadata": {"name": user, "labels": {"strata.dev/tenant": tenant}}, "status": {"phase": "Running"}}
            for name, text in ((f"{user}.address", str(port)), (f"{user}.kubernetes", json.dumps(pod))):
                (hub.directory / name).write_text(text)
                stack.callback((hub.directory / name).unlink)
            assert start(hub, user).status_code in (201, 202)
            eventually(lambda: ready(hub, user), 60, f"the server of {user} runs")
            return hub.token(user)

        yield start_server


def ready(hub: Hub, user: str) -> bool:
    """Whether the user's server runs."""
    response = hub.call(hub.operator, "GET", f"/api/users/{user}")
    return response.status_code == 200 and bool((response.json()["servers"].get("") or {}).get("ready"))


def is_gone(hub: Hub, user: str) -> bool:
    return hub.call(hub.operator, "GET", f"/api/users/{user}").status_code == 404


@pytest.mark.parametrize("how", ["removed from the group", "disabled"])
def test_all_ends_of_who_may_no_longer_use_the_hub(
    hub: Hub, issuer: Issuer, running: Callable[[str, str], str], how: str
) -> None:
    """Without a request of the user: the server, sessions, tokens, and batch jobs of every tenant."""
    user = f"leaves-{len(how)}"
    browser = log_in(hub, issuer, user, MEMBER)
    token = running(user, "research")
    if how == "disabled":
        issuer.disabled.add(user)
    else:
        issuer.groups[user] = []
    eventually(lambda: is_gone(hub, user), 60, "the hub has no record of the user")
    jobs = {f"research.{user}", f"teaching.{user}"}
    eventually(lambda: jobs <= set(hub.pool.removed), 60, "the batch jobs are removed")
    assert hub.call(token, "GET", "/api/user").status_code == 403
    page = browser.get(f"{hub.url}/home", allow_redirects=False, timeout=60)
    assert page.status_code == 302
    issuer.disabled.clear()
    log_in(hub, issuer, user, MEMBER)
    assert hub.call(hub.token(user), "GET", "/api/user").status_code == 200, "who is a member again logs in again"


def test_a_server_ends_with_the_membership_of_its_tenant(
    hub: Hub, issuer: Issuer, running: Callable[[str, str], str]
) -> None:
    log_in(hub, issuer, "moves", MEMBER, "/tenants/teaching")
    token = running("moves", "research")
    issuer.groups["moves"] = ["/tenants/teaching"]
    eventually(lambda: not ready(hub, "moves"), 60, "the server of the former tenant has stopped")
    eventually(lambda: "research.moves" in hub.pool.removed, 60, "so have its jobs")
    assert "teaching.moves" not in hub.pool.removed
    assert hub.call(token, "GET", "/api/tenants/teaching/datasets").status_code == 200


def test_jobs_end_with_the_membership_of_who_has_no_server(hub: Hub, issuer: Issuer) -> None:
    log_in(hub, issuer, "computes", MEMBER, "/tenants/teaching")
    with hub.pool.running():
        jobs = {"research.computes", "teaching.computes", "research.stranger"}
        hub.pool.owners |= jobs
        time.sleep(2 * SHORT_CHECK)
        issuer.groups["computes"] = ["/tenants/teaching"]
        eventually(lambda: "research.computes" in hub.pool.removed, 60, "the jobs of the former tenant are removed")
        assert hub.pool.owners & jobs == jobs - {"research.computes"}
        hub.pool.owners.clear()


def test_a_server_outlives_what_does_not_end_a_membership(
    hub: Hub, issuer: Issuer, running: Callable[[str, str], str]
) -> None:
    """A session that has ended, an issuer that is down, and one that omits the groups once."""
    for user in ("stays", "ends"):
        log_in(hub, issuer, user, MEMBER)
        running(user, "research")
    issuer.down = True
    time.sleep(2 * SHORT_CHECK)
    issuer.down = False
    issuer.end_sessions()
    log_in(hub, issuer, "ends", MEMBER)
    issuer.groups["ends"] = []
    eventually(lambda: is_gone(hub, "ends"), 60, "the rounds go on")
    assert ready(hub, "stays")
    assert "research.stays" not in hub.pool.removed
    hub.call(hub.operator, "DELETE", "/api/users/stays/server")


LOSSES = """
from strata_hub.members import Losses
losses = Losses({"a": "/tenants/a", "b": "/tenants/b"}, 0.2)
import time
losses.note("ada", ["/tenants/a"], [], allowed=False)
losses.note("ada", [], [], allowed=False)
assert losses.confirmed("ada") is None, "two answers at once are one"
losses.note("ada", [], ["/tenants/a"], allowed=True)
assert not losses.found, "it was a realm that is being changed"
losses.note("ada", ["/tenants/a", "/tenants/b"], ["/tenants/b"], allowed=True)
time.sleep(0.3)
losses.note("ada", ["/tenants/b"], ["/tenants/b"], allowed=True)
assert losses.confirmed("ada").tenants == {"a"} and not losses.confirmed("ada").hub
"""


def test_a_loss_is_confirmed_by_a_later_answer() -> None:
    done = run_code(LOSSES)
    assert done.returncode == 0, done.stderr


FORMER = """
from jupyterhub import orm
from strata_hub.service_tokens import remove_former
db = orm.new_session_factory("sqlite:///:memory:")()
service, user = orm.Service(name="leaving"), orm.User(name="ada")
db.add_all([service, user, orm.OAuthClient(identifier="jupyterhub")])
db.commit()
for token in ("of-before-the-rotation", "of-now-and-long-enough"):
    service.new_api_token(token, note="from config", generated=False)
own = user.new_api_token()
assert remove_former(db, ["of-now-and-long-enough"]) == 1
rows = [orm.APIToken.find(db, t) for t in ("of-before-the-rotation", "of-now-and-long-enough", own)]
assert [row is not None for row in rows] == [False, True, True], rows
"""


def test_a_service_token_ends_with_its_rotation() -> None:
    """JupyterHub itself keeps each token that its configuration ever had."""
    done = run_code(FORMER)
    assert done.returncode == 0, done.stderr
