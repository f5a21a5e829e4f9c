"""The application: settings in, ASGI out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import Response

from hub_mirror import account, cards, lfs, publish, resolve
from hub_mirror.body_limit import BodyLimit, TooLarge
from hub_mirror.counts import Counts
from hub_mirror.migrations import MIGRATIONS
from hub_mirror.mirror import running
from hub_mirror.names import InvalidName
from hub_mirror.readers import InsidePort
from hub_mirror.refusals import HUB_ERRORS
from hub_mirror.settings import Settings
from hub_mirror.upstream import UpstreamUnavailable
from strata_http import app
from strata_http.app import Api
from strata_http.errors import error_response

API = Api(
    title="Hub mirror",
    version="1",
    summary="A cache of the Hugging Face Hub, with the repositories of the site's tenants.",
    path="",
    routers=(),
    # their own dependency reads the tokens: a token of the Hub is none of the site
    public_routers=(account.router, publish.router, lfs.router, cards.router),
    migrations=MIGRATIONS,
    errors=HUB_ERRORS,
)


def create_app(settings: Settings) -> FastAPI:
    """The API."""
    made = app.create_app(API, settings)
    # behind the probes: it takes every path
    made.include_router(resolve.router)
    made.state.settings = settings
    made.add_middleware(BodyLimit)
    made.add_middleware(InsidePort, port=settings.inside_port)
    made.add_exception_handler(InvalidName, _invalid_name)
    made.add_exception_handler(TooLarge, _too_large)
    made.add_exception_handler(UpstreamUnavailable, _upstream_unavailable)
    counts = Counts(made.state.registry)
    whole = made.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[None]:
        async with whole(served), running(served, settings, counts):
            yield

    made.router.lifespan_context = lifespan
    return made


async def _invalid_name(request: Request, error: Exception) -> Response:
    return error_response(request, 400, str(error))


async def _too_large(request: Request, error: Exception) -> Response:
    return error_response(request, 413, str(error))


async def _upstream_unavailable(request: Request, error: Exception) -> Response:
    return error_response(request, 504, str(error), headers={"Retry-After": "30"})
