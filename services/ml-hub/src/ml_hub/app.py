"""The application: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI

from ml_hub.migrations import MIGRATIONS
from ml_hub.routes import models, names
from ml_hub.settings import Settings
from strata_http import app
from strata_http.app import Api

API = Api(
    title="ML Hub",
    version="3",
    summary="Discover machine-learning models.",
    path="/v3/ml-hub",
    routers=(models.router, names.router),
    migrations=MIGRATIONS,
)


def create_app(settings: Settings) -> FastAPI:
    """The API."""
    return app.create_app(API, settings)
