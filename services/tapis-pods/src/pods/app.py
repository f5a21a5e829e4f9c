"""The application: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI

from pods.execution import Executor
from pods.logs import Reader
from pods.migrations import MIGRATIONS
from pods.routes import actions, execution, images, permissions, pods, status_page, templates
from pods.settings import Settings
from strata_http import app
from strata_http.app import Api
from strata_http.envelope import ENVELOPE

API = Api(
    title="Pods",
    version="1.9.0",
    summary="Containers with a name of their own, in the form of Tapis' Pods API.",
    path="/v3",
    document="/v3/pods",
    # names of objects before names of pods
    routers=(
        images.router,
        templates.router,
        templates.permissions,
        pods.router,
        actions.router,
        permissions.router,
        execution.router,
    ),
    public_routers=(status_page.router,),
    migrations=MIGRATIONS,
    errors=ENVELOPE,
)


def create_app(settings: Settings) -> FastAPI:
    """The API."""
    created = app.create_app(API, settings)
    created.state.settings = settings
    created.state.log_reader = Reader(settings.kubeconfig)
    created.state.executor = Executor(settings.kubeconfig)
    return created
