"""The application: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI

from ml_hub.hub import Hub
from ml_hub.migrations import MIGRATIONS
from ml_hub.model_server import ModelServer
from ml_hub.routes import content, datasets, inference, models, names
from ml_hub.settings import Settings
from ml_hub.web.site import WEB
from strata_http import app
from strata_http.app import Api
from strata_http.envelope import ENVELOPE
from strata_http.web.mount import install

API = Api(
    title="ML Hub",
    version="3",
    summary="Discover machine-learning models and datasets.",
    path="/v3/ml-hub",
    routers=(models.router, inference.router, models.one_router, datasets.router, content.router, names.router),
    migrations=MIGRATIONS,
    errors=ENVELOPE,
)


def create_app(settings: Settings) -> FastAPI:
    """The API, and the pages at their name, where the API responds too."""
    made = app.create_app(API, settings)
    made.state.settings = settings
    made.state.hub = Hub(settings)
    url = settings.inference_internal_url
    made.state.model_server = ModelServer(str(url)) if url is not None else None
    install(made, WEB, settings)
    return made
