"""Login and logout of pages."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from strata_http import audit
from strata_http.login import HEADERS, Finished, LoginFailed
from strata_http.rate_limits import limit_address
from strata_http.sessions import SESSION, set_cookie
from strata_http.tokens import IssuerUnavailable
from strata_http.web import access_tokens
from strata_http.web.responses import render
from strata_http.web.state import state_of

CALLBACK_PATH = "/.login/callback"
"""Where the issuer sends browsers after a login; registered there."""
LOGGED_OUT_PATH = "/.logout"
"""Where the issuer sends browsers after a logout; registered there."""
PAGE = "page"
"""In the content of a login, where it leads."""
LONGEST_PAGE = 1500
"""Of what a cookie keeps, in characters."""
PER_ADDRESS = "600/minute"


def begin(request: Request) -> Response:
    """Sends the browser to the issuer, and back to the page that it asks for."""
    page = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return state_of(request).login.begin({PAGE: page if len(page) <= LONGEST_PAGE else "/"})


async def finish_login(request: Request) -> Finished:
    """What a browser comes back from the issuer with.

    Raises:
        HTTPException: 400 where the login was not completed, 503 where the issuer does not respond.
    """
    try:
        return await run_in_threadpool(state_of(request).login.finish, request)
    except LoginFailed as error:
        raise HTTPException(400, f"No login: {error}. Open the page again.") from error
    except IssuerUnavailable as error:
        raise HTTPException(503, f"No login: {error}. Try again.", headers={"Retry-After": "10"}) from error


def start_session(request: Request, response: Response, done: Finished) -> Response:
    """Adds the session's cookie to a response, and removes the login's."""
    state = state_of(request)
    state.sessions.start(response, state.host, done.caller)
    if state.tokens is not None:
        state.tokens.keep(response, state.host, done)
    set_cookie(response, done.cookie, "", 0)
    return response


def return_to_page(request: Request, done: Finished) -> Response:
    """Sends the browser to the page that it asked for, with a session."""
    # the path begins with a slash, because it is that of a request, and the origin is this one
    response = RedirectResponse(f"{state_of(request).origin}{done.content[PAGE]}", 303, HEADERS)
    return start_session(request, response, done)


router = APIRouter(include_in_schema=False, dependencies=[Depends(limit_address(PER_ADDRESS))])


@router.post("/.logout")
async def log_out(request: Request) -> Response:
    """Ends the session here, and at the issuer."""
    audit.skip(request)
    state = state_of(request)
    query = {
        "client_id": state.settings.client_id,
        "post_logout_redirect_uri": f"{state.origin}{LOGGED_OUT_PATH}",
    }
    logout = str(state.settings.logout_url or "")
    target = f"{logout}{'&' if '?' in logout else '?'}{urlencode(query)}" if logout else LOGGED_OUT_PATH
    response = RedirectResponse(target, 303, HEADERS)
    set_cookie(response, SESSION, "", 0)
    access_tokens.drop(response)
    return response


@router.get(LOGGED_OUT_PATH)
async def show_logged_out(request: Request) -> Response:
    """Where a logout ends."""
    return render(request, "logged_out.html")
