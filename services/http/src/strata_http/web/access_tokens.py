"""Access tokens of visitors, for pages that ask other services of the site in their name."""

from __future__ import annotations

import time

import structlog
from starlette.requests import HTTPConnection
from starlette.responses import Response

from strata_http.login import Finished
from strata_http.sealing import Sealer
from strata_http.sessions import PREFIX, cookies, end_of_session, set_cookie
from strata_http.tokens import Caller

TOKEN = f"{PREFIX}token"
LONGEST = 3800
"""Characters of a value that browsers keep; they drop longer cookies without a word."""
log = structlog.get_logger(__name__)


class AccessTokens:
    """Keeps them in a sealed cookie beside the session's, as long as the session: no process and no table has them.

    Args:
        secret: of the service, the same in all its processes.
    """

    def __init__(self, secret: str) -> None:
        self._sealer = Sealer(secret, "access token")

    def keep(self, response: Response, host: str, done: Finished) -> None:
        """Sets the cookie; a token that is too long for one is not kept.

        Args:
            response: to a browser.
            host: that responds.
            done: the login.
        """
        ends = end_of_session(done.caller)
        sealed = self._sealer.seal(_audience(host, done.caller), ends, {"token": done.access_token})
        if len(sealed) > LONGEST:
            log.warning("access token is too long for a cookie", characters=len(done.access_token))
            drop(response)
            return
        set_cookie(response, TOKEN, sealed, max(0, int(ends - time.time())))

    def find(self, connection: HTTPConnection, host: str, caller: Caller) -> str | None:
        """The token of a session's user; None where the browser has none."""
        for name, value in cookies(connection):
            if name == TOKEN and (kept := self._sealer.open(_audience(host, caller), value)) is not None:
                return str(kept["token"])
        return None


def drop(response: Response) -> None:
    """Removes the cookie."""
    set_cookie(response, TOKEN, "", 0)


def _audience(host: str, caller: Caller) -> str:
    """The token of one user is not taken for another's, whose session the same browser may have by now."""
    return f"{host} {caller.subject}"
