"""The application: settings in, ASGI out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from ml_hub import problems
from ml_hub.database import create_service_engine
from ml_hub.metrics import Metrics
from ml_hub.middleware import Observe
from ml_hub.problems import Problem
from ml_hub.routes import health, models, names
from ml_hub.settings import Settings
from ml_hub.tokens import TokenVerifier, require_token

BASE_PATH = "/v3/ml-hub"


def create_app(settings: Settings) -> FastAPI:
    """The API with its own metrics, database pool and token verifier."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = create_service_engine(settings)
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
        title="ML Hub",
        version="3",
        summary="Discover machine-learning models.",
        openapi_url=f"{BASE_PATH}/openapi.json",
        # the pages load scripts from the internet, which a site need not reach
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.verifier = TokenVerifier(settings)
    app.add_middleware(Observe, metrics=metrics)
    problems.install(app)
    api = APIRouter(prefix=BASE_PATH, dependencies=[Depends(require_token)], responses=problems.RESPONSES)
    api.include_router(models.router)
    api.include_router(names.router)
    app.include_router(api)
    app.include_router(health.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The document, with our error shape in place of the framework's."""
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
