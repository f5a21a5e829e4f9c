"""A user who logs in at JupyterHub and starts a server by its form, as a browser does: for tests and benchmarks."""

from __future__ import annotations

import html
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from strata.access.https import site_session
from strata.access.kubectl import kubectl as run_kubectl
from strata.access.users import Account, add_user, remove_user
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.catalogue.published import published
from strata.catalogue.site_services import issuer
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.verify.tokens import FORM, Login
from strata_services.jupyterhub.needs import NAMESPACE
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.settings import JupyterHub

PASSWORD = secrets.token_hex(16)
"""Of users who end with the test or benchmark; they may be a real site's."""
PAGE_SECONDS = 60
EVENT = b"data: "


@contextmanager
def new_user(
    context: SiteContext, kubectl: Callable[..., str], name: str, tenant: str, *, administrator: bool = False
) -> Iterator[tuple[User, str]]:
    """A user, not logged in, and the first password; user and server are gone afterwards.

    Args:
        context: of a site with notebooks and users of its own.
        kubectl: of the operator.
        name: always the same in a test: JupyterHub keeps a record of each user who ever logged in.
        tenant: of the user.
        administrator: whether the user is a principal investigator.
    """
    with suppress(UserError):
        remove_user(context, name)  # of an interrupted run
    administered = (tenant,) if administrator else ()
    password = add_user(context, Account(name, f"{name}@{context.site.domain}", (tenant,), administered))
    with ExitStack() as stack:
        stack.callback(remove_user, context, name)
        user = session(context, kubectl, name, stack)
        user.stop()
        stack.callback(user.stop)
        yield user, password


def settings_of(context: SiteContext) -> JupyterHub:
    """Of a site that has notebooks.

    Raises:
        UserError: it has none.
    """
    settings = JUPYTERHUB.of(context.site)
    if settings is None:
        raise UserError(f"benchmark: site {context.site.name} has no {JUPYTERHUB.key}", fix="name another site")
    return settings


def logged_in(context: SiteContext, name: str, stack: ExitStack, *, administrator: bool = False) -> User:
    """A member of the first tenant who has logged in; gone when the stack closes. For benchmarks.

    Raises:
        UserError: the site has no notebooks, no tenants, or no users of its own.
    """
    settings_of(context)
    own, tenants = issuer(context.site), context.site.platform.tenants
    if own is None or own.users is None or not tenants:
        raise UserError(
            f"benchmark: site {context.site.name} has no tenants, or no users of its own", fix="name another site"
        )
    run = partial(run_kubectl, context)
    made = new_user(context, run, name, tenants[0].name, administrator=administrator)
    user, password = stack.enter_context(made)
    user.log_in(own, password)
    return user


def session(context: SiteContext, kubectl: Callable[..., str], name: str, stack: ExitStack) -> User:
    """A user of the site with a session that the stack closes."""
    (hub,) = (entry.url for entry in published(context.site) if entry.key == JUPYTERHUB.key)
    return User(name, stack.enter_context(site_session(context)), hub, kubectl)


@dataclass(frozen=True)
class User:
    """A user with a session.

    Args:
        name: at the issuer and at the hub.
        http: finds the site's names, and has the cookies of the user.
        hub: URL of the hub, with a slash at its end.
        kubectl: of the operator.
    """

    name: str
    http: requests.Session
    hub: str
    kubectl: Callable[..., str]

    def log_in(self, issuer: Issuer, first_password: str, scope: str = "openid") -> dict[str, Any]:
        """For the first time, with a new password; the hub finds the session at the issuer.

        Args:
            issuer: of the site.
            first_password: of the invitation.
            scope: of the tokens.

        Returns:
            the issuer's tokens for kubectl's client.
        """
        login = Login(CLIENT, REDIRECT_URLS[0], scope=scope)
        tokens: dict[str, Any] = login.tokens(self.http, issuer, self.name, first_password, PASSWORD)
        page = self.http.get(f"{self.hub}hub/home", timeout=PAGE_SECONDS)
        assert page.status_code == 200, page.text
        assert urlsplit(page.url).path == "/hub/home", page.url
        return tokens

    def token(self) -> str:
        """Of the hub, as its page `token` gives it."""
        made = self._ask("POST", "tokens", json={"note": "a story", "expires_in": 3600})
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    def request_server(self, profile: str) -> float:
        """Sends the form with a profile; does not wait for the server. Returns when it was sent (monotonic seconds)."""
        form = self.open_form()
        begin = time.monotonic()
        self.send_form(form, profile)
        return begin

    def open_form(self) -> str:
        """URL that the form of a start is sent to."""
        end = time.monotonic() + PAGE_SECONDS
        while True:
            page = self.http.get(f"{self.hub}hub/spawn", timeout=PAGE_SECONDS)
            form = FORM.search(page.text) if urlsplit(page.url).path == "/hub/spawn" else None
            if form is not None:
                return urljoin(page.url, html.unescape(form.group(1)))
            # the hub has not noticed yet that the pod of an interrupted run is gone
            assert time.monotonic() < end, page.url
            time.sleep(1)

    def send_form(self, url: str, profile: str) -> None:
        """Sends the form of a start; does not wait for the server."""
        sent = self.http.post(url, data={"profile": profile}, timeout=PAGE_SECONDS)
        assert sent.status_code == 200, sent.text

    def wait_for_hub(self, seconds: float) -> None:
        """Returns when the hub reports to the page of the start that the server is ready: by one request, which stays
        open.

        Raises:
            AssertionError: the start failed, with the hub's message, or took longer.
        """
        end, said = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            with self._ask("GET", "server/progress", stream=True) as events:
                for line in events.iter_lines():
                    if line.startswith(EVENT):
                        event = json.loads(line.removeprefix(EVENT))
                        said = event.get("message", "")
                        assert not event.get("failed"), said
                        if event.get("ready"):
                            return
                    if time.monotonic() > end:
                        break
                said = said or f"{events.status_code} {events.reason}"
            # the hub still asks the issuer about the user
            time.sleep(0.5)
        raise AssertionError(f"no server of {self.name} after {seconds:.0f} s: {said}")

    def wait_for_server(self, seconds: float, pause: float = 0.5) -> None:
        """Returns when the server shows JupyterLab; asks again after a pause in seconds."""
        path, end = f"/user/{self.name}/lab", time.monotonic() + seconds
        while True:
            page = self.http.get(urljoin(self.hub, path), timeout=PAGE_SECONDS)
            if page.status_code == 200 and urlsplit(page.url).path == path:
                return
            assert time.monotonic() < end, f"no server of {self.name} after {seconds:.0f} s: {page.url}"
            time.sleep(pause)

    def request_stop(self) -> None:
        """Stops the server as the hub's page does; does not wait for its end."""
        stopped = self._ask("DELETE", "server")
        assert stopped.status_code in (202, 204), stopped.text

    def stop_server(self) -> None:
        """Stops the server, and waits for the end of its pod."""
        self.request_stop()
        end = time.monotonic() + PAGE_SECONDS
        while self.pods():
            assert time.monotonic() < end, f"the server of {self.name} has not ended"
            time.sleep(0.2)

    def pods(self) -> list[dict[str, Any]]:
        """Of the user's servers."""
        listed = self.kubectl("get", "pods", f"--namespace={NAMESPACE.name}", self._selector, "--output=json")
        items: list[dict[str, Any]] = json.loads(listed)["items"]
        return items

    def stop(self) -> None:
        """Deletes the pod, as the loss of its node does, and waits for its end."""
        self.kubectl("delete", "pods", f"--namespace={NAMESPACE.name}", self._selector, "--ignore-not-found")

    def _ask(self, method: str, what: str, **options: Any) -> requests.Response:
        """A request to the hub's API about the user, as the hub's pages send it."""
        (xsrf,) = {cookie.value for cookie in self.http.cookies if (cookie.name, cookie.path) == ("_xsrf", "/hub/")}
        return self.http.request(
            method,
            f"{self.hub}hub/api/users/{self.name}/{what}",
            headers={"X-XSRFToken": str(xsrf), "Referer": f"{self.hub}hub/home"},
            timeout=PAGE_SECONDS,
            **options,
        )

    @property
    def _selector(self) -> str:
        return f"--selector=hub.jupyter.org/username={self.name}"
