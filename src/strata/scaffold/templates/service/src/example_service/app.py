"""The application: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI
from strata_http import app
from strata_http.app import Api

from example_service import notes
from example_service.migrations import MIGRATIONS
from example_service.settings import Settings

API = Api(
    title="example-service",
    version="1",
    summary="Notes that the members of a tenant share.",
    path="/v1",
    routers=(notes.router,),
    migrations=MIGRATIONS,
)


def create_app(settings: Settings) -> FastAPI:
    """The API."""
    return app.create_app(API, settings)
