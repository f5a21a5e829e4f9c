"""Sessions of browsers: a sealed cookie with what a token has, for one host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response

from strata_http.sealing import Sealer
from strata_http.tokens import Caller

PREFIX = "__Host-strata-"
"""Of all cookies here. Browsers accept a name with __Host- only over TLS, and from the host itself: no other host below
the same domain can set one."""
SESSION = f"{PREFIX}session"
SECONDS = 900
"""Longest session, as long as an access token: membership is not read again before."""
TENANTS = "/tenants/"
"""What the groups begin with that a session keeps."""


class Sessions:
    """Makes and reads sessions.

    Args:
        secret: of the service, the same in all its processes.
    """

    def __init__(self, secret: str) -> None:
        self._sealer = Sealer(secret, "session")

    def start(self, response: Response, audience: str, caller: Caller) -> None:
        """Sets the cookie; the session ends with the caller's token, and after SECONDS at the latest.

        Args:
            response: to a browser.
            audience: the only one that the session is for; begins with the host that responds.
            caller: whose it is.
        """
        ends = end_of_session(caller)
        sealed = self._sealer.seal(audience, ends, kept_claims(caller) | {"exp": ends})
        set_cookie(response, SESSION, sealed, max(0, int(ends - time.time())))

    def find(self, connection: HTTPConnection, audience: str) -> Caller | None:
        """Whose session the request has; None without one for the audience."""
        for name, value in cookies(connection):
            if name == SESSION and (claims := self._sealer.open(audience, value)) is not None:
                return Caller(subject=str(claims["sub"]), claims=claims)
        return None


def end_of_session(caller: Caller) -> float:
    """Of a session that begins now, in seconds since 1970.

    Args:
        caller: by the ID token.
    """
    return min(time.time() + SECONDS, float(caller.claims["exp"]))


def kept_claims(caller: Caller) -> dict[str, Any]:
    """What a session needs of an ID token, in a size that cookies and URLs have room for."""
    groups = caller.claims.get("groups")
    tenants = [group for group in groups if str(group).startswith(TENANTS)] if isinstance(groups, list) else []
    named = {"sub": caller.subject, "preferred_username": caller.username}
    return {**named, "groups": tenants, "exp": caller.claims["exp"]}


def set_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    """Sets a cookie that scripts cannot read and other sites' requests do not carry; 0 seconds remove it."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def cookies(connection: HTTPConnection) -> Iterator[tuple[str, str]]:
    """All of a request, those with the same name too."""
    for part in _parts(connection):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def other_cookies(connection: HTTPConnection) -> str:
    """The Cookie header without those of this module, unchanged besides; empty where no other is left."""
    return "; ".join(part for part in _parts(connection) if not part.startswith(PREFIX))


def _parts(connection: HTTPConnection) -> Iterator[str]:
    for header in connection.headers.getlist("cookie"):
        yield from filter(None, (part.strip() for part in header.split(";")))
