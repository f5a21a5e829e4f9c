"""Users who log in at JupyterHub and start servers by its form, as a browser does."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.verify.tokens import FORM, Login
from strata_services.jupyterhub.needs import NAMESPACE

PASSWORD = "a-password-of-the-user"
PAGE_SECONDS = 60


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

    def log_in(self, issuer: Issuer, first_password: str) -> None:
        """For the first time, with a new password; the hub finds the session at the issuer."""
        Login(CLIENT, REDIRECT_URLS[0]).tokens(self.http, issuer, self.name, first_password, PASSWORD)
        page = self.http.get(f"{self.hub}hub/home", timeout=PAGE_SECONDS)
        assert page.status_code == 200, page.text
        assert urlsplit(page.url).path == "/hub/home", page.url

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
