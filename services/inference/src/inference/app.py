"""The application: settings in, ASGI out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from fastapi import FastAPI

from inference.cluster import Cluster
from inference.counts import Counts
from inference.forwarding import Forwarder
from inference.models import Models
from inference.routes import ml_hub, openai, tasks
from inference.runtime import Runtime
from inference.settings import Settings
from strata_http import app
from strata_http.app import Api
from strata_http.envelope import ENVELOPE

API = Api(
    title="Inference",
    version="1",
    summary="Models of the site, by OpenAI's API, Hugging Face's tasks and Tapis' ML Hub.",
    path="",
    document="/v3/ml-hub/inference",
    routers=(openai.router, tasks.router, ml_hub.router),
    errors=ENVELOPE,
)


def create_app(settings: Settings) -> FastAPI:
    """The API, which stops idle models while it is served."""
    made = app.create_app(API, settings)
    counts = Counts(made.state.registry)
    # as many as the models' own limits let through; an environment's proxy does not lead to a model server
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
    client = httpx2.AsyncClient(limits=limits, trust_env=False, follow_redirects=False)
    cluster = Cluster(settings.kubeconfig, settings.namespace)
    runtimes = [Runtime(model, settings, cluster, client, counts) for model in settings.models]
    made.state.settings = settings
    made.state.models = Models(runtimes, settings.check_seconds)
    made.state.forwarder = Forwarder(settings, client, counts)
    whole = made.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[None]:
        async with whole(served), client, made.state.models.kept():
            yield

    made.router.lifespan_context = lifespan
    return made
