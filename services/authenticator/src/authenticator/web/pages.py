"""The list of a user's personal access tokens, and the form that creates one.

A token is created after a login of its own, because only a login gives a lasting refresh token. The page at the
end of that login shows the token; nothing shows it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import Response

from authenticator import store
from authenticator.exchange import target_of
from authenticator.settings import Settings
from strata_http import audit
from strata_http.audit import Change, describe
from strata_http.database import Connection, transaction
from strata_http.login import Finished
from strata_http.web import logins
from strata_http.web.guards import Visitor
from strata_http.web.mount import Web
from strata_http.web.responses import go_to, render
from strata_http.web.state import state_of

LIFETIMES = (7, 30, 90, 365)
"""Days to choose from, up to the site's limit."""
LONGEST_NAME = 64
OFFLINE_SCOPE = "offline_access"
NAME, DAYS, SUBJECT = "name", "days", "subject"
"""In the content of a login that creates a token."""
CREATE = "personal-access-tokens.create"

log = structlog.get_logger(__name__)
router = APIRouter()
TypedName = Annotated[str, Form(alias="name")]
TypedDays = Annotated[str, Form(alias="days")]


@router.get("/")
async def show(request: Request, visitor: Visitor, connection: Connection) -> Response:
    """The list and the form."""
    rows = await store.list_of(connection, visitor.subject)
    return render(request, "tokens.html", tokens=rows, problem="", **_form(request))


@router.post("/tokens")
async def begin(
    request: Request, visitor: Visitor, connection: Connection, name: TypedName = "", days: TypedDays = ""
) -> Response:
    """Leads to the issuer, and from there to the new token; a form with an error is shown again."""
    audit.skip(request)
    name = name.strip()
    problem = _problem(request, name, days)
    if not problem:
        try:
            await store.check_new(connection, visitor.subject, name)
        except store.CannotCreate as error:
            problem = str(error)
    if problem:
        rows = await store.list_of(connection, visitor.subject)
        typed = _form(request) | {"name": name, "days": days}
        return render(request, "tokens.html", 400, tokens=rows, problem=problem, **typed)
    return state_of(request).login.begin({NAME: name, DAYS: days, SUBJECT: visitor.subject}, scope=OFFLINE_SCOPE)


@router.post("/tokens/{token_id}/revoke")
async def revoke(request: Request, visitor: Visitor, connection: Connection, token_id: str) -> Response:
    """At once."""
    describe(request, Change("personal-access-tokens.delete", target_of(token_id)))
    if not await store.remove(connection, token_id, visitor.subject):
        raise HTTPException(404, "You have no such token. It may have been revoked already, or have expired.")
    return go_to("/")


async def finish(request: Request, done: Finished) -> Response:
    """Responds to a browser that comes back from the issuer, with a session.

    Raises:
        HTTPException: 403 after a login as another user, 503 where the issuer gives no refresh token.
    """
    if logins.PAGE in done.content:
        return logins.return_to_page(request, done)
    caller = done.caller
    request.state.subject, request.state.username = caller.subject, caller.username
    describe(request, Change(CREATE, "personal-access-tokens"))
    if done.content[SUBJECT] != caller.subject:
        raise HTTPException(403, f"You logged in as {caller.username}, another user. No token was created.")
    if not done.refresh_token:
        log.error("the issuer gives the client that logs browsers in no offline refresh token")
        raise HTTPException(503, "The login service gave no lasting login. No token was created; tell the operators.")
    return logins.start_session(request, await _create(request, done), done)


async def _create(request: Request, done: Finished) -> Response:
    owner = store.Owner(done.caller.subject, done.caller.username)
    name, days = done.content[NAME], int(done.content[DAYS])
    try:
        async with transaction(request) as connection:
            made, expires = await store.create(connection, owner, name, days, done.refresh_token)
    except store.CannotCreate as error:
        # another window was faster
        raise HTTPException(409, f"No token was created: {error}") from error
    describe(request, Change(CREATE, target_of(made.id)))
    settings: Settings = request.app.state.settings
    return render(request, "created.html", 201, name=name, expires=expires, token=made.text, api=settings.tenant_url)


def _problem(request: Request, name: str, days: str) -> str:
    """What is wrong with the values of the form; empty where nothing is."""
    if not (1 <= len(name) <= LONGEST_NAME and name.isprintable()):
        return f"the name needs 1 to {LONGEST_NAME} printable characters"
    if days not in {str(lifetime) for lifetime in lifetimes(request)}:
        return "choose one of the lifetimes"
    return ""


def lifetimes(request: Request) -> tuple[int, ...]:
    """Days that the site allows; its limit alone where that is the shortest."""
    settings: Settings = request.app.state.settings
    longest = settings.personal_access_token_days
    return tuple(days for days in LIFETIMES if days <= longest) or (longest,)


def _form(request: Request) -> dict[str, Any]:
    """Values of an empty form."""
    choices = lifetimes(request)
    return {"lifetimes": choices, "name": "", "days": str(choices[min(1, len(choices) - 1)]), "most": store.MAXIMUM}


PAGES = Web("Access tokens", Path(__file__).with_name("templates"), (router,), finish=finish)
