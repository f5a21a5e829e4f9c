"""Login by browser at the site's issuer: OpenID Connect's authorization code with PKCE.

`begin` sends a browser to the issuer, and `finish` reads what it comes back with. Between the two, a sealed cookie
keeps what neither the issuer nor another site may choose.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import structlog
from fastapi import Request
from fastapi.responses import RedirectResponse

from strata_http.sealing import Sealer
from strata_http.sessions import PREFIX, cookies, set_cookie
from strata_http.settings import LoginSettings
from strata_http.tokens import Caller, InvalidToken, IssuerUnavailable, TokenVerifier

LOGIN_SECONDS = 600
"""From `begin` to `finish`."""
TIMEOUT_SECONDS = 15.0
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_COOKIE = f"{PREFIX}login-"

log = structlog.get_logger(__name__)


class LoginFailed(Exception):
    """The browser comes back without a login; the message gives the reason and goes to the user."""


@dataclass(frozen=True)
class Finished:
    """A login.

    Args:
        caller: who logged in, by the ID token.
        content: what `begin` was given.
        cookie: name of the cookie that has served.
        refresh_token: of the issuer; empty where it gives none.
        access_token: of the issuer, for the services that the client is registered for.
    """

    caller: Caller
    content: dict[str, str]
    cookie: str
    refresh_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)


class Login:
    """Logins of one service.

    Args:
        settings: of the service.
        callback_url: where the issuer sends browsers, exactly as it is registered there.
    """

    def __init__(self, settings: LoginSettings, callback_url: str) -> None:
        self._settings, self._callback_url = settings, callback_url
        self._sealer = Sealer(settings.read_session_key(), "login")
        # an ID token is for the client, an access token for the service
        self._verifier = TokenVerifier(settings.model_copy(update={"audience": settings.client_id}))
        self._tls = ssl.create_default_context(cafile=settings.issuer_ca_file)

    def begin(self, content: Mapping[str, str], scope: str = "") -> RedirectResponse:
        """Sends the browser to the issuer.

        Args:
            content: that `finish` gives back; the browser cannot read or change it.
            scope: beside that of the settings, `offline_access`.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._callback_url,
            "scope": f"{self._settings.login_scope} {scope}".rstrip(),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        url = str(self._settings.authorize_url)
        response = RedirectResponse(f"{url}{'&' if '?' in url else '?'}{urlencode(query)}", 303, HEADERS)
        kept = {"nonce": nonce, "verifier": verifier, "content": dict(content)}
        # a cookie for each login: several windows may log in at once
        sealed = self._sealer.seal(state, time.time() + LOGIN_SECONDS, kept)
        set_cookie(response, _cookie(state), sealed, LOGIN_SECONDS)
        return response

    def finish(self, request: Request) -> Finished:
        """What the browser comes back with; waits for the issuer, so call it in a thread.

        Raises:
            LoginFailed: the login was not completed, is too old, or began in another browser.
            IssuerUnavailable: the issuer does not respond.
        """
        query = request.query_params
        state = query.get("state", "")
        opened = (self._sealer.open(state, value) for name, value in cookies(request) if name == _cookie(state))
        kept = next(filter(None, opened), None)
        if kept is None:
            raise LoginFailed("this login is too old, or began in another browser")
        if "code" not in query:
            log.info("issuer refused a login", error=query.get("error", "")[:100])
            raise LoginFailed("the login was not completed")
        form = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": self._callback_url,
            "code_verifier": kept["verifier"],
            "client_id": self._settings.client_id,
            "client_secret": self._settings.read_client_secret(),
        }
        answer = self._exchange(form)
        try:
            caller = self._verifier.verify(str(answer.get("id_token", "")))
        except InvalidToken as error:
            log.error("issuer's ID token does not hold", reason=str(error))
            raise LoginFailed("the issuer's answer does not hold") from error
        if not secrets.compare_digest(str(caller.claims.get("nonce", "")).encode(), kept["nonce"].encode()):
            raise LoginFailed("the issuer's answer is to another login")
        tokens = (str(answer.get(name, "")) for name in ("refresh_token", "access_token"))
        return Finished(caller, kept["content"], _cookie(state), *tokens)

    def _exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The token endpoint's answer to a code."""
        request = urllib.request.Request(  # noqa: S310 (http(s) by type)
            str(self._settings.token_url), urlencode(form).encode(), {"Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self._tls) as response:  # noqa: S310
                body = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise IssuerUnavailable("the login service does not respond") from error
            log.warning("issuer refused a code", status=error.code)
            raise LoginFailed("the issuer refused the login") from error
        except (OSError, ValueError) as error:
            log.warning("issuer's token endpoint does not respond", reason=type(error).__name__)
            raise IssuerUnavailable("the login service does not respond") from error
        return body if isinstance(body, dict) else {}


def _cookie(state: str) -> str:
    """A name that the issuer, who sees the state, cannot make another cookie's."""
    return f"{_COOKIE}{hashlib.sha256(state.encode()).hexdigest()[:16]}"
