"""Extensions of Jupyter's server: culling, folders, and a token of the batch system, renewed before it expires."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from strata_notebook.folders import prepare

DIRECTORY = "_CONDOR_SEC_TOKEN_DIRECTORY"
"""Where HTCondor's client reads tokens; the hub sets it at sites with a batch system."""
RETRY_SECONDS = 60.0
FORBIDDEN = 403


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}, {"module": f"{__name__}.culling"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Called by Jupyter's server; it does not wait for the token."""
    try:
        prepare(Path.home())
    except OSError as error:
        server.log.warning("no links in the home: %s", error)
    if DIRECTORY in os.environ and "JUPYTERHUB_API_URL" in os.environ:
        server.io_loop.add_callback(keep, os.environ, server.log)


async def keep(environment: Mapping[str, str], log: Any) -> None:
    """Renews the token until the server ends, or returns where the user cannot have one."""
    while True:
        seconds = RETRY_SECONDS
        try:
            seconds = max(RETRY_SECONDS, await renew(environment) / 2)
        except HTTPClientError as error:
            reason = _message(error)
            if error.code == FORBIDDEN:
                log.warning("no batch jobs: %s", reason)
                return
            log.warning("no token of the batch system: %s; next request in %.0f s", reason, seconds)
        except (OSError, ValueError, KeyError) as error:
            log.warning("no token of the batch system: %r; next request in %.0f s", error, seconds)
        await asyncio.sleep(seconds)


async def renew(environment: Mapping[str, str]) -> float:
    """Requests a token and writes it; returns the seconds until it expires.

    Raises:
        HTTPClientError: the hub refuses, or has none now.
        OSError: the hub does not answer, or the file cannot be written.
    """
    name = quote(environment["JUPYTERHUB_USER"], safe="@")
    response = await AsyncHTTPClient().fetch(
        f"{environment['JUPYTERHUB_API_URL']}/users/{name}/batch-token",
        method="POST",
        headers={"Authorization": f"token {environment['JUPYTERHUB_API_TOKEN']}"},
        body="",
        request_timeout=30,
    )
    issued = json.loads(response.body)
    directory = Path(environment[DIRECTORY])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    # HTCondor skips names that start with a dot, and refuses files that others can read
    written = directory / ".token"
    written.touch(mode=0o600)
    written.write_text(issued["token"] + "\n")
    written.rename(directory / "token")
    return float(issued["expires"]) - time.time()


def _message(error: HTTPClientError) -> str:
    """The hub's own, where it has one."""
    try:
        return str(json.loads(error.response.body)["message"])
    except (AttributeError, ValueError, KeyError, TypeError):
        return str(error)
