"""Extension of Jupyter's server: what counts as its user's activity, and JupyterLab's way to ask when the hub stops it,
whether its user has to log in again, and whether the home is full.

The hub culls by the activity that this server reports. JupyterLab polls while its page is open, and jupyter_server
counts each request; a kernel that computes without output is not counted. Both are changed here."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async, url_path_join
from jupyterlab_server.workspaces_handler import WorkspacesHandler
from tornado import web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from strata_notebook import home
from strata_notebook.batch import TOKEN

PATH = ("strata", "api", "culling")
"""The part `api` has the hub answer with 424, not with a page, once the server is stopped."""
READING = ("GET", "HEAD", "OPTIONS")
BUSY_SECONDS = 30.0
HUB_SECONDS = 20.0
NOT_FOUND = 404


def _load_jupyter_server_extension(server: Any) -> None:
    """Called by Jupyter's server."""
    if "JUPYTERHUB_API_URL" not in os.environ:
        return
    APIHandler.update_api_activity = changes_only(APIHandler.update_api_activity)
    WorkspacesHandler._track_activity = False  # documented in APIHandler; the page saves it every 10 s
    server.web_app.add_handlers(".*$", [(url_path_join(server.base_url, *PATH), CullingHandler)])
    server.io_loop.add_callback(count_busy_kernels, server.kernel_manager, server.web_app.settings)


def changes_only(update: Callable[[APIHandler], None]) -> Callable[[APIHandler], None]:
    """`update` for requests that change something: JupyterLab reads every 10 s, whether its user is present or not."""

    def of(handler: APIHandler) -> None:
        if handler.request.method not in READING:
            update(handler)

    return of


async def count_busy_kernels(kernels: Any, settings: dict[str, Any]) -> None:
    """Counts kernels that compute as activity; jupyter_server does so at their messages only."""
    while True:
        states = [kernel["execution_state"] for kernel in await ensure_async(kernels.list_kernels())]
        if "busy" in states:
            # jupyter_server's last_activity is the latest of all settings whose name ends so
            settings["busy_kernels_last_activity"] = datetime.now(UTC)
        await asyncio.sleep(BUSY_SECONDS)


class CullingHandler(APIHandler):
    """When the hub will stop this server, for JupyterLab; a POST is activity."""

    @web.authenticated
    async def get(self) -> None:
        """As the hub's API has it, with `batch`, the notice of the token, `home`, the hub's page, and `full`, a text
        while the user's home is full.

        Raises:
            HTTPError: 404: the hub stops no servers. 502: it does not respond.
        """
        stop = json.loads(await _hub(f"users/{quote(os.environ['JUPYTERHUB_USER'], safe='@')}/culling"))
        page = url_path_join(os.environ.get("JUPYTERHUB_BASE_URL", "/"), "hub/home")
        # an NFS server may take its time
        full = await asyncio.to_thread(home.full, Path.home(), int(os.environ.get(home.LIMIT, "0")))
        self.finish({**stop, "batch": TOKEN.notice(time.time()), "home": page, "full": full})

    @web.authenticated
    async def post(self) -> None:
        """Reports activity to the hub at once; the rest as for a GET.

        Raises:
            HTTPError: likewise.
        """
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        name = os.environ.get("JUPYTERHUB_SERVER_NAME", "")
        await _hub(
            os.environ["JUPYTERHUB_ACTIVITY_URL"], {"servers": {name: {"last_activity": now}}, "last_activity": now}
        )
        await self.get()


async def _hub(path: str, body: object = None) -> bytes:
    url = path if "://" in path else f"{os.environ['JUPYTERHUB_API_URL']}/{path}"
    request = HTTPRequest(
        url,
        "GET" if body is None else "POST",
        {"Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}"},
        body=None if body is None else json.dumps(body),
        request_timeout=HUB_SECONDS,
    )
    try:
        return (await AsyncHTTPClient().fetch(request)).body
    except HTTPClientError as error:
        status = NOT_FOUND if error.code == NOT_FOUND else 502
        raise web.HTTPError(status, f"the hub: {error}") from None
    except OSError as error:
        raise web.HTTPError(502, f"the hub: {error}") from None
