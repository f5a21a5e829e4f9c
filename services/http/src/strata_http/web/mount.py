"""Adds pages to a service's application, at one name; at its other names, nothing of them responds."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, Response
from starlette.routing import Host, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from strata_http import health
from strata_http.login import Finished, Login
from strata_http.rate_limits import limit_address
from strata_http.sessions import Sessions
from strata_http.settings import WebSettings
from strata_http.web import logins
from strata_http.web.access_tokens import AccessTokens
from strata_http.web.guards import LoginNeeded, check_origin, require_session
from strata_http.web.rendering import FOLDER, Entry, Renderer
from strata_http.web.state import State

FILES = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
PER_ADDRESS = "1200/minute"


async def _return_to_page(request: Request, done: Finished) -> Response:
    return logins.return_to_page(request, done)


@dataclass(frozen=True)
class Web:
    """The pages of one service.

    Args:
        title: of the service, in users' words.
        folder: of its templates.
        routers: its pages; each of them needs a session.
        menu: links that all pages have.
        public_routers: pages and other routes that need no session.
        finish: responds to a browser that comes back from the issuer. Default: leads it to the page that it asked for.
            Another one must do so for each login whose content has the key `page`.
        api_paths: where the API responds at the name of the pages too, by tokens and never by the session:
            "/v3/ml-hub" and all below it.
        keeps_tokens: whether pages have the visitor's access token (`guards.VisitorToken`).
    """

    title: str
    folder: Path
    routers: Sequence[APIRouter]
    menu: Sequence[Entry] = ()
    public_routers: Sequence[APIRouter] = ()
    finish: Callable[[Request, Finished], Awaitable[Response]] = _return_to_page
    api_paths: Sequence[str] = ()
    keeps_tokens: bool = False


class _PagesHost(Host):
    """The name of the pages, but for some paths, which the routes behind it have."""

    def __init__(self, host: str, app: ASGIApp, api_paths: Sequence[str]) -> None:
        super().__init__(host, app)
        # ingress controllers lead the name with a dot at its end here too, and what is only the API's must not respond
        self.host_regex = re.compile(rf"{re.escape(host)}\.?\Z")
        self._api = re.compile(rf"({'|'.join(map(re.escape, api_paths))})(/.*)?\Z", re.DOTALL) if api_paths else None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As any host."""
        if self._api is not None and self._api.match(scope["path"]):
            return Match.NONE, {}
        return super().matches(scope)


def install(app: FastAPI, web: Web, settings: WebSettings) -> None:
    """Adds the pages, with login, logout and style sheet.

    Args:
        app: of create_app.
        web: the pages.
        settings: of the service.
    """
    login = Login(settings, f"{settings.web_origin}{logins.CALLBACK_PATH}")
    renderer = Renderer(web.title, web.folder, web.menu, settings)
    key = settings.read_session_key()
    tokens = AccessTokens(key) if web.keeps_tokens else None
    state = State(settings, renderer, login, Sessions(key), tokens)
    app.state.web = state

    @app.exception_handler(LoginNeeded)
    async def _log_in(request: Request, _: Exception) -> Response:
        return logins.begin(request)

    pages = APIRouter(redirect_slashes=False, include_in_schema=False, dependencies=[Depends(check_origin)])
    pages.include_router(logins.router)
    pages.include_router(_callback(web))
    # for what watches the name, which has no session
    pages.include_router(health.create_router(settings.service(), None))
    for router in web.public_routers:
        pages.include_router(router)
    for router in web.routers:
        pages.include_router(router, dependencies=[Depends(require_session)])
    pages.include_router(_files())
    route = _PagesHost(state.host.partition(":")[0], _as_pages(pages, renderer), web.api_paths)
    app.router.routes.insert(0, route)


def _callback(web: Web) -> APIRouter:
    router = APIRouter()

    @router.get(logins.CALLBACK_PATH, dependencies=[Depends(limit_address(logins.PER_ADDRESS))])
    async def finish(request: Request) -> Response:
        """From the issuer."""
        return await web.finish(request, await logins.finish_login(request))

    return router


def _files() -> APIRouter:
    """Style sheet, script and icon; anything else is not found."""
    router = APIRouter(dependencies=[Depends(limit_address(PER_ADDRESS))])

    @router.get("/{path:path}")
    async def serve(path: str) -> Response:
        if path not in FILES:
            raise HTTPException(404, "There is no page at this address.")
        headers = {"Cache-Control": "max-age=300", "X-Content-Type-Options": "nosniff"}
        return FileResponse(FOLDER / path, headers=headers, media_type=FILES[path])

    return router


def _as_pages(pages: ASGIApp, renderer: Renderer) -> ASGIApp:
    """Errors at the name of the pages are pages."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["error_page"] = renderer.error
        await pages(scope, receive, send)

    return handle
