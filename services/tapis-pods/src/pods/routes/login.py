"""The login in front of a pod: what Traefik asks about each request, and the way to the issuer and back.

A browser without a session at the pod's host goes to the pages' host, to the issuer, back to the pages' host, and with
a code to the pod's host, where its session begins. Sessions, codes and cookies are for one host each; none of them, and
no token, is passed on to the pod, whose program may be anyone's.
"""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.protected_ports import ProtectedPort, find_port
from pods.response_headers import filled
from pods.routes.pods import settings_of
from pods.routes.status_page import page, parse_host
from pods.settings import ApiSettings
from strata_http.bearer import accept_token
from strata_http.database import Connection
from strata_http.login import HEADERS, Finished
from strata_http.rate_limits import limit_address
from strata_http.sealing import Sealer
from strata_http.sessions import PREFIX, Sessions, cookies, kept_claims, other_cookies, set_cookie
from strata_http.tokens import Caller
from strata_http.web.logins import PAGE, return_to_page
from strata_http.web.state import state_of

ENTER_PATH = "/.login"
"""At the pod's own name, the end of a login; never the pod's program's."""
BEGIN_PATH = "/.login/pod"
"""At the pages' name, the begin of a login in front of a pod."""
HOST = "host"
"""In the content of a login in front of a pod, the pod's host."""
CODE_SECONDS = 60
STATE_SECONDS = 900
"""From the first request to the end of the login."""
LONGEST_PATH = 1500
"""Of what a cookie keeps."""
REQUESTS, LOGINS = "12000/minute", "600/minute"
AGAIN = "This login has ended or began in another browser. Open the page again."
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}

router = APIRouter()
browser_router = APIRouter()
"""At the pages' name."""
Host = Annotated[str, Query(max_length=255)]
State = Annotated[str, Query(pattern="^[A-Za-z0-9_-]{16,64}$")]


class Logins:
    """What the routes share.

    Args:
        settings: of the service.
    """

    def __init__(self, settings: ApiSettings) -> None:
        key = settings.read_session_key()
        self.begin_url = f"{settings.web_origin}{BEGIN_PATH}"
        self.sessions = Sessions(key)
        self.codes, self.states = Sealer(key, "code"), Sealer(key, "state")


def logins_of(request: Request) -> Logins:
    """Of the running service."""
    logins: Logins = request.app.state.logins
    return logins


# not below /v3/pods, which the API's own name leads to: Traefik alone reaches it
@router.get("/forward-auth", include_in_schema=False, dependencies=[Depends(limit_address(REQUESTS))])
async def decide(
    request: Request, connection: Connection, token: Annotated[Caller | None, Depends(accept_token)]
) -> Response:
    """Whether Traefik passes a request on to a pod: 200 with the headers for it, or what the client gets instead."""
    logins = logins_of(request)
    port = await _find(request, connection, request.headers.get("x-forwarded-host", ""))
    target = urlsplit(request.headers.get("x-forwarded-uri", "/"))
    if target.path == ENTER_PATH:
        return _enter(request, logins, port, parse_qs(target.query))
    caller = token or logins.sessions.find(request, port.session)
    if caller is None:
        if _is_navigation(request):
            return _send_to_login(request, logins, port)
        detail = "log in by browser at this name, or send a token: Authorization: Bearer …, or X-Tapis-Token: …"
        raise HTTPException(401, detail, headers={"WWW-Authenticate": 'Bearer realm="pods"'})
    if token is None and _is_other_sites(request, port.host):
        raise HTTPException(403, "requests of other sites' pages need a token; a session is not enough")
    request.state.subject, request.state.username = caller.subject, caller.username
    if not port.admits(caller):
        if _is_navigation(request):
            return page(f"{caller.username} is not among those whom this pod lets in", 403)
        raise HTTPException(403, f"{caller.username} is not among those whom this pod lets in")
    return Response(headers=_passed_on(request) | filled(port.entry.tapis_auth_response_headers, caller.username))


@browser_router.get(BEGIN_PATH, dependencies=[Depends(limit_address(LOGINS))])
async def begin(request: Request, connection: Connection, host: Host, state: State) -> Response:
    """From a pod's host to the issuer."""
    port = await _find(request, connection, host)
    return state_of(request).login.begin({HOST: port.host, "state": state})


async def finish(request: Request, done: Finished) -> Response:
    """From the issuer to the page that was asked for, or to a pod's host with a code that only the browser that asked
    can use."""
    if PAGE in done.content:
        return return_to_page(request, done)
    host = done.content[HOST]
    content = {"state": done.content["state"], "claims": kept_claims(done.caller)}
    query = urlencode({"code": logins_of(request).codes.seal(host, time.time() + CODE_SECONDS, content)})
    response = RedirectResponse(f"https://{host}{ENTER_PATH}?{query}", 303, HEADERS)
    set_cookie(response, done.cookie, "", 0)
    return response


async def _find(request: Request, connection: AsyncConnection, host: str) -> ProtectedPort:
    """The port that a host is the name of.

    Raises:
        HTTPException: 404 where there is none with a login.
    """
    domain = settings_of(request).domain
    named = parse_host(host, domain)
    port = named and await find_port(connection, domain, *named)
    if not port:
        raise HTTPException(404, "there is no pod with a login at this name")
    return port


def _send_to_login(request: Request, logins: Logins, port: ProtectedPort) -> Response:
    state, path = secrets.token_urlsafe(16), port.entry.tapis_auth_return_path
    if path == "/":
        path = request.headers.get("x-forwarded-uri", "/")
    if not path.startswith("/") or len(path) > LONGEST_PATH:
        path = "/"
    query = urlencode({"host": port.host, "state": state})
    response = RedirectResponse(f"{logins.begin_url}?{query}", 303, HEADERS)
    sealed = logins.states.seal(port.host, time.time() + STATE_SECONDS, {"state": state, "path": path})
    set_cookie(response, _state_cookie(state), sealed, STATE_SECONDS)
    return response


def _enter(request: Request, logins: Logins, port: ProtectedPort, query: dict[str, list[str]]) -> Response:
    """Begins a session at the pod's host, for a code and the cookie that belongs to it."""
    code = logins.codes.open(port.host, query.get("code", [""])[0])
    name = _state_cookie(code["state"]) if code else ""
    opened = (logins.states.open(port.host, value) for cookie, value in cookies(request) if cookie == name)
    kept = next(filter(None, opened), None)
    if code is None or kept is None or kept["state"] != code["state"]:
        return page(AGAIN, 400)
    # the host is ours and the path begins with a slash, so it leads nowhere else
    response = RedirectResponse(f"https://{port.host}{kept['path']}", 303, HEADERS)
    logins.sessions.start(response, port.session, Caller(subject=code["claims"]["sub"], claims=code["claims"]))
    set_cookie(response, name, "", 0)
    return response


def _state_cookie(state: str) -> str:
    return f"{PREFIX}state-{state}"


def _is_navigation(request: Request) -> bool:
    """Whether a person opens a page; programs and scripts get an error instead of a redirect."""
    headers = request.headers
    if headers.get("x-forwarded-method", "GET") not in ("GET", "HEAD"):
        return False
    if "sec-fetch-mode" in headers:
        return headers["sec-fetch-mode"] == "navigate"
    return "text/html" in headers.get("accept", "")


def _is_other_sites(request: Request, host: str) -> bool:
    """Whether a page of another host sent the request, with the session that the browser adds.

    Pods are one site to a browser, so SameSite does not keep a pod's page from requests to another pod. What remains is
    to open a page in a window, as by a link.
    """
    headers = request.headers
    if headers.get("origin", f"https://{host}") != f"https://{host}":
        return True
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    linked = all(headers.get(name) == value for name, value in NAVIGATION.items())
    return not (linked and headers.get("x-forwarded-method") in ("GET", "HEAD"))


def _passed_on(request: Request) -> dict[str, Any]:
    """Of the headers that Traefik withholds, what the pod gets: its own cookies, and no tokens."""
    headers = {"Cookie": other_cookies(request)}
    authorization = request.headers.getlist("authorization")
    if len(authorization) == 1 and not authorization[0].lower().lstrip().startswith("bearer"):
        headers["Authorization"] = authorization[0]
    return {name: value for name, value in headers.items() if value}
