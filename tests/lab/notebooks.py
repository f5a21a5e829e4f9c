"""Users who log in at JupyterHub and start servers by its form, as a browser does."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from strata.access.https import site_session
from strata.access.users import Account, add_user, remove_user
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.errors import UserError
from strata.inventory.services import published_services
from strata.site.context import SiteContext
from strata.verify.tokens import FORM, Login
from strata_services.jupyterhub.needs import NAMESPACE
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB

PASSWORD = "a-password-of-the-user"
PAGE_SECONDS = 60


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


def session(context: SiteContext, kubectl: Callable[..., str], name: str, stack: ExitStack) -> User:
    """A user of the site with a session that the stack closes."""
    (hub,) = (one.url for one in published_services(context.site) if one.key == JUPYTERHUB.key)
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
        (xsrf,) = {cookie.value for cookie in self.http.cookies if (cookie.name, cookie.path) == ("_xsrf", "/hub/")}
        made = self.http.post(
            f"{self.hub}hub/api/users/{self.name}/tokens",
            json={"note": "a story", "expires_in": 3600},
            headers={"X-XSRFToken": str(xsrf), "Referer": f"{self.hub}hub/token"},
            timeout=PAGE_SECONDS,
        )
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    def request_server(self, profile: str) -> None:
        """Sends the form with a profile; does not wait for the server."""
        end = time.monotonic() + PAGE_SECONDS
        while True:
            page = self.http.get(f"{self.hub}hub/spawn", timeout=PAGE_SECONDS)
            form = FORM.search(page.text) if urlsplit(page.url).path == "/hub/spawn" else None
            if form is not None:
                break
            # the hub has not noticed yet that the pod of an interrupted run is gone
            assert time.monotonic() < end, page.url
            time.sleep(1)
        sent = self.http.post(
            urljoin(page.url, html.unescape(form.group(1))), data={"profile": profile}, timeout=PAGE_SECONDS
        )
        assert sent.status_code == 200, sent.text

    def wait_for_server(self, seconds: float) -> None:
        """Returns when the server shows JupyterLab."""
        path, end = f"/user/{self.name}/lab", time.monotonic() + seconds
        while True:
            page = self.http.get(urljoin(self.hub, path), timeout=PAGE_SECONDS)
            if page.status_code == 200 and urlsplit(page.url).path == path:
                return
            assert time.monotonic() < end, f"no server of {self.name} after {seconds:.0f} s: {page.url}"
            time.sleep(0.5)

    def pods(self) -> list[dict[str, Any]]:
        """Of the user's servers."""
        listed = self.kubectl("get", "pods", f"--namespace={NAMESPACE.name}", self._selector, "--output=json")
        found: list[dict[str, Any]] = json.loads(listed)["items"]
        return found

    def stop(self) -> None:
        """Deletes the pod, as the loss of its node does, and waits for its end."""
        self.kubectl("delete", "pods", f"--namespace={NAMESPACE.name}", self._selector, "--ignore-not-found")

    @property
    def _selector(self) -> str:
        return f"--selector=hub.jupyter.org/username={self.name}"
