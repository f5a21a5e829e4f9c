"""Who may use a page: a session of this name, and forms of its own pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from limits import parse

from strata_http.rate_limits import RateLimits, route_of
from strata_http.tokens import Caller
from strata_http.web.state import state_of

READING = frozenset({"GET", "HEAD"})
REQUESTS = parse("600/minute")
"""Of one user to one route."""


class LoginNeeded(Exception):
    """The request has no session, and its page is to be opened after a login."""


def check_origin(request: Request) -> None:
    """Dependency of all pages: what changes something comes from a page of this name.

    SameSite does not separate names below one domain, which are one site to a browser, and users' pods have such names.

    Raises:
        HTTPException: 403.
    """
    if request.method in READING:
        return
    own = state_of(request).origin
    if request.headers.getlist("origin") != [own]:
        raise HTTPException(403, f"forms of other sites are not accepted; open {own}")


async def require_session(request: Request) -> Caller:
    """Dependency of the pages behind a login.

    Raises:
        LoginNeeded: a browser opens a page without a session.
        HTTPException: 401 for any other request without a session, 429 beyond the limit.
    """
    state = state_of(request)
    caller = state.sessions.find(request, state.host)
    if caller is None:
        if request.method not in READING:
            raise HTTPException(
                401, "Your session ended before this was sent, so nothing was changed. Open the page again."
            )
        if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
            raise HTTPException(401, "the session has ended")
        raise LoginNeeded
    request.state.subject, request.state.username = caller.subject, caller.username
    limits: RateLimits = request.app.state.rate_limits
    await limits.count(REQUESTS, "page", caller.subject, route_of(request))
    return caller


Visitor = Annotated[Caller, Depends(require_session)]
"""Of a route: whose session it is."""


def _find_token(request: Request, visitor: Visitor) -> str | None:
    state = state_of(request)
    return None if state.tokens is None else state.tokens.find(request, state.host, visitor)


VisitorToken = Annotated[str | None, Depends(_find_token)]
"""Of a route of a `Web` that keeps tokens: the visitor's access token; None where the browser has none."""
