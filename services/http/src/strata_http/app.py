"""The application: settings and routes in, ASGI out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from strata_http import database, errors, health, rate_limits
from strata_http.bearer import require_token
from strata_http.errors import ErrorFormat
from strata_http.metrics import Metrics
from strata_http.middleware import Observe
from strata_http.migrations import Migrations
from strata_http.problems import PROBLEMS
from strata_http.rate_limits import limit_caller
from strata_http.settings import DatabaseSettings, HttpSettings
from strata_http.tokens import TokenVerifier

FRAMEWORK_STATUS = 422
"""That the framework's document names for values that cannot be."""


@dataclass(frozen=True)
class Api:
    """What one service serves.

    Args:
        title: of the OpenAPI document.
        version: of the API.
        summary: of the OpenAPI document, one sentence.
        path: below which the routes are, "/v3/ml-hub"; the document is at `openapi.json` there.
        routers: the routes; each of them needs a token.
        migrations: of the database; None for a service without one, whose settings are HttpSettings.
        public_routers: the routes that need no token, such as a login; each should have a limit for addresses.
        errors: how they are answered: PROBLEMS, or ENVELOPE of strata_http.envelope as Tapis' clients expect.
        document: below which the document is, where that is not `path`.
        documented_routers: routes that need a token and are another process's, which only the document has.
    """

    title: str
    version: str
    summary: str
    path: str
    routers: Sequence[APIRouter]
    migrations: Migrations | None = None
    public_routers: Sequence[APIRouter] = ()
    errors: ErrorFormat = PROBLEMS
    document: str = ""
    documented_routers: Sequence[APIRouter] = ()


def create_app(api: Api, settings: HttpSettings) -> FastAPI:
    """The API with its own metrics, database pool and token verifier; beside it /healthz and /readyz.

    Raises:
        TypeError: the API has migrations, and the settings no database.
    """
    if api.migrations is not None and not isinstance(settings, DatabaseSettings):
        raise TypeError(f"{type(settings).__name__} names no database, and {api.title} has migrations")
    service = settings.service()
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = database.create_service_engine(settings) if isinstance(settings, DatabaseSettings) else None
        if engine is not None:
            metrics.watch(engine)
            app.state.engine = engine
        server = metrics.serve(settings.bind_address, settings.metrics_port) if settings.metrics_port else None
        try:
            yield
        finally:
            if server is not None:
                server.shutdown()
            if engine is not None:
                await engine.dispose()

    app = FastAPI(
        title=api.title,
        version=api.version,
        summary=api.summary,
        openapi_url=f"{api.document or api.path}/openapi.json",
        # the pages load scripts from the internet, which a site need not reach
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.realm = service
    # for a service's own metrics
    app.state.registry = metrics.registry
    app.state.verifier = TokenVerifier(settings)
    rate_limits.install(app, settings.rate_limit, settings.trusted_proxies)
    app.add_middleware(Observe, metrics=metrics)
    errors.install(app, api.errors)
    database.install(app)
    guards = [Depends(require_token), Depends(limit_caller)]
    beside = APIRouter()
    for target, routers, dependencies in (
        (app, api.routers, guards),
        (app, api.public_routers, []),
        (beside, api.documented_routers, guards),
    ):
        routes = APIRouter(prefix=api.path, dependencies=dependencies, responses=api.errors.responses)
        for router in routers:
            routes.include_router(router)
        target.include_router(routes)
    app.include_router(health.create_router(service, api.migrations))
    app.openapi = lambda: _openapi(app, beside.routes)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, beside: Sequence[BaseRoute]) -> dict[str, Any]:
    """The document, with the service's own errors in place of the framework's."""
    if app.openapi_schema is None:
        routes = [*app.routes, *beside]
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=routes)
        schemas = document["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        chosen: ErrorFormat = app.state.error_format
        if chosen.invalid_status != FRAMEWORK_STATUS:
            for operations in document["paths"].values():
                for operation in operations.values():
                    operation["responses"].pop(str(FRAMEWORK_STATUS), None)
        error = chosen.model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= error.pop("$defs", {})
        schemas[chosen.model.__name__] = error
        app.openapi_schema = document
    return app.openapi_schema
