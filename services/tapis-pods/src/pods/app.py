"""The applications: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI

from pods.access import SNAPSHOTS, VOLUMES
from pods.execution import Executor
from pods.logs import Reader
from pods.measures import MeasureReader
from pods.migrations import MIGRATIONS
from pods.routes import (
    actions,
    execution,
    images,
    login,
    measures,
    permissions,
    pods,
    snapshots,
    status_page,
    templates,
    upload,
    volumes,
)
from pods.routes.contents import content_routes
from pods.routes.permissions import Sharing, permission_routes
from pods.settings import ApiSettings, FilesSettings
from pods.storage import Storage
from pods.web.site import WEB
from strata_http import app
from strata_http.app import Api
from strata_http.envelope import ENVELOPE
from strata_http.web.mount import install

VERSION = "1.9.0"
FILES = Api(
    title="Volumes and snapshots of pods",
    version=VERSION,
    summary="Files that pods share, in the form of Tapis' Pods API.",
    path="/v3",
    document="/v3/pods/volumes",
    routers=(
        volumes.router,
        upload.router,
        content_routes(VOLUMES, volumes.router.prefix),
        permission_routes(Sharing(VOLUMES, volumes.router.prefix)),
        snapshots.router,
        content_routes(SNAPSHOTS, snapshots.router.prefix),
        permission_routes(Sharing(SNAPSHOTS, snapshots.router.prefix)),
    ),
    migrations=MIGRATIONS,
    errors=ENVELOPE,
)
API = Api(
    title="Pods",
    version=VERSION,
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
        measures.router,
    ),
    public_routers=(status_page.router, login.router),
    documented_routers=FILES.routers,
    migrations=MIGRATIONS,
    errors=ENVELOPE,
)


def create_app(settings: ApiSettings) -> FastAPI:
    """The API without volumes and snapshots, the OpenAPI document with them, and the pages at their own name."""
    created = app.create_app(API, settings)
    created.state.settings = settings
    created.state.log_reader = Reader(settings.kubeconfig)
    created.state.executor = Executor(settings.kubeconfig)
    created.state.measure_reader = MeasureReader(settings.prometheus_url)
    created.state.logins = login.Logins(settings)
    install(created, WEB, settings)
    return created


def create_files_app(settings: FilesSettings) -> FastAPI:
    """Volumes and snapshots, for a process that has the export mounted."""
    created = app.create_app(FILES, settings)
    created.state.settings, created.state.storage = settings, Storage(settings.volumes_path)
    return created
