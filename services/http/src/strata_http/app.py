"""The application: settings and routes in, ASGI out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from strata_http import database, health, problems, rate_limits
from strata_http.bearer import require_token
from strata_http.metrics import Metrics
from strata_http.middleware import Observe
from strata_http.migrations import Migrations
from strata_http.problems import Problem
from strata_http.rate_limits import limit_caller
from strata_http.settings import ServeSettings
from strata_http.tokens import TokenVerifier


@dataclass(frozen=True)
class Api:
    """What one service serves.

    Args:
        title: of the OpenAPI document.
        version: of the API.
        summary: of the OpenAPI document, one sentence.
        path: below which the routes are, "/v3/ml-hub"; the document is at `openapi.json` there.
        routers: the routes; each of them needs a token.
        migrations: of the database.
        public_routers: the routes that need no token, such as a login; each should have a limit for addresses.
    """

    title: str
    version: str
    summary: str
    path: str
    routers: Sequence[APIRouter]
    migrations: Migrations
    public_routers: Sequence[APIRouter] = ()


def create_app(api: Api, settings: ServeSettings) -> FastAPI:
    """The API with its own metrics, database pool and token verifier; beside it /healthz and /readyz."""
    service = settings.service()
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = database.create_service_engine(settings)
        metrics.watch(engine)
        app.state.engine = engine
        server = metrics.serve(settings.bind_address, settings.metrics_port) if settings.metrics_port else None
        try:
            yield
        finally:
            if server is not None:
                server.shutdown()
            await engine.dispose()

    app = FastAPI(
        title=api.title,
        version=api.version,
        summary=api.summary,
        openapi_url=f"{api.path}/openapi.json",
        # the pages load scripts from the internet, which a site need not reach
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.realm = service
    app.state.verifier = TokenVerifier(settings)
    rate_limits.install(app, settings.rate_limit, settings.trusted_proxies)
    app.add_middleware(Observe, metrics=metrics)
    problems.install(app)
    database.install(app)
    guards = [Depends(require_token), Depends(limit_caller)]
    for routers, dependencies in ((api.routers, guards), (api.public_routers, [])):
        routes = APIRouter(prefix=api.path, dependencies=dependencies, responses=problems.RESPONSES)
        for router in routers:
            routes.include_router(router)
        app.include_router(routes)
    app.include_router(health.create_router(service, api.migrations))
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The document, with `Problem` in place of the framework's errors."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        schemas = document["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs")
        schemas["Problem"] = problem
        app.openapi_schema = document
    return app.openapi_schema
