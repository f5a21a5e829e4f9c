"""Tokens of the site's issuer, as clients and users get them."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urljoin, urlsplit

import requests

from strata.catalogue.issuer import Issuer

NewUser = Callable[[str], tuple[str, str]]
"""Tenant → name and first password of a new member."""
FORM = re.compile(r'<form[^>]*\baction="([^"]+)"', re.DOTALL)
FIELDS = ("password-new", "username")
"""Each identifies a form of a login; that for a new password may show the name too."""
SECONDS = 60
"""For one answer: the issuer may be at its first requests."""
STEPS = 8
"""Forms and redirects of one login at most."""


class LoginRefused(Exception):
    """The issuer did not let a user in; the message has what it showed."""


def request_token(http: requests.Session, own: Issuer, secret: str, audience: str = "") -> requests.Response:
    """The client credentials grant of the issuer's own client.

    Args:
        http: finds the site's names.
        own: the issuer.
        secret: of its client.
        audience: that the token is for; empty: none.
    """
    data = {"grant_type": "client_credentials"}
    if audience and own.scope:
        data["scope"] = own.scope.format(audience=audience)
    return http.post(own.public.token, data=data, auth=(own.client, secret), timeout=SECONDS)


def client_token(http: requests.Session, own: Issuer, secret: str, audience: str) -> str:
    """A token for an audience.

    Raises:
        AssertionError: the issuer refused.
    """
    response = request_token(http, own, secret, audience)
    assert response.status_code == 200, response.text
    return str(response.json()["access_token"])


@dataclass(frozen=True)
class Login:
    """A login with a client.

    Args:
        client: its id.
        redirect_url: that is registered for it.
        secret: of the client; empty for a public one.
        scope: that is asked for.
    """

    client: str
    redirect_url: str
    secret: str = field(default="", repr=False)
    scope: str = "openid"

    def tokens(self, http: requests.Session, own: Issuer, user: str, password: str, new_password: str = "") -> dict:  # type: ignore[type-arg]  # the issuer's answer, as it is
        """What a browser and the client do together: the issuer's forms, then the code for tokens (PKCE).

        Args:
            http: finds the site's names; keeps the session's cookies.
            own: the issuer.
            user: name of the user.
            password: of the user.
            new_password: set where the issuer asks for one at the first login.

        Raises:
            LoginRefused: no code came back.
            AssertionError: the code was not taken.
        """
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": self.redirect_url,
            "scope": self.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        answer = http.get(own.public.authorize, params=query, timeout=SECONDS, allow_redirects=False)
        # each once: an issuer locks out whoever tries again at once
        forms = {
            "password-new": {"password-new": new_password, "password-confirm": new_password},
            "username": {"username": user, "password": password},
        }
        code = ""
        for _ in range(STEPS):
            location = urljoin(answer.url, answer.headers.get("Location", ""))
            if answer.is_redirect and location.startswith(self.redirect_url):
                returned = parse_qs(urlsplit(location).query)
                if "code" not in returned or returned.get("state") != [state]:
                    raise LoginRefused(location)
                code = returned["code"][0]
                break
            if answer.is_redirect:
                answer = http.get(location, timeout=SECONDS, allow_redirects=False)
                continue
            form = FORM.search(answer.text)
            asked = next((name for name in FIELDS if f'name="{name}"' in answer.text), "")
            if form is None or asked not in forms or (asked == "password-new" and not new_password):
                raise LoginRefused(f"{answer.status_code}: {_said(answer.text)}")
            action = html.unescape(form.group(1))
            answer = http.post(action, data=forms.pop(asked), timeout=SECONDS, allow_redirects=False)
        else:
            raise LoginRefused(f"no code after {STEPS} steps")
        data = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "client_id": self.client,
            "code_verifier": verifier,
        }
        if self.secret:
            data["client_secret"] = self.secret
        taken = http.post(own.public.token, data=data, timeout=SECONDS)
        assert taken.status_code == 200, taken.text
        return dict(taken.json())


def _said(page: str) -> str:
    """The text of a page."""
    return " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL).split())[-300:]
