"""A token of the batch system, renewed at the hub before it expires, and what JupyterLab shows when it cannot be."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

DIRECTORY = "_CONDOR_SEC_TOKEN_DIRECTORY"
"""Where HTCondor's client reads tokens; the hub sets it at sites with a batch system."""
RETRY_SECONDS = 60.0
SOONEST_SECONDS = 1.0
"""Until a token is renewed, however short its lifetime."""
UNAUTHORIZED = 401


@dataclass
class Token:
    """The server's token.

    Args:
        expires: seconds since 1970; 0 before the first one.
        problem: why the last request failed; empty if it did not.
        login_ended: whether its user has to log in again.
    """

    expires: float = 0.0
    problem: str = ""
    login_ended: bool = False

    def notice(self, now: float) -> dict[str, Any] | None:
        """What JupyterLab shows: `problem`, `login` (whether a login helps) and `expires`; None for nothing.

        A user who never had a token, for instance without a tenant, sees nothing.
        """
        if self.problem and (self.login_ended or 0 < self.expires < now):
            return {"problem": self.problem, "login": self.login_ended, "expires": self.expires}
        return None


TOKEN = Token()


async def keep(environment: Mapping[str, str], log: Any) -> None:
    """Renews the token until the server ends; logs why it cannot once per reason."""
    while True:
        problem, login_ended, seconds = "", False, RETRY_SECONDS
        try:
            seconds = max(SOONEST_SECONDS, await renew(environment) / 2)
        except HTTPClientError as error:
            problem, login_ended = _message(error), error.code == UNAUTHORIZED
        except (OSError, ValueError, KeyError) as error:
            problem = repr(error)
        if problem and problem != TOKEN.problem:
            log.warning("no token of the batch system: %s; next request in %.0f s", problem, seconds)
        TOKEN.problem, TOKEN.login_ended = problem, login_ended
        await asyncio.sleep(seconds)


async def renew(environment: Mapping[str, str]) -> float:
    """Requests a token and writes it; returns the seconds until it expires.

    Raises:
        HTTPClientError: the hub refuses, or has none now.
        OSError: the hub does not respond, or the file cannot be written.
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
    TOKEN.expires = float(issued["expires"])
    return TOKEN.expires - time.time()


def _message(error: HTTPClientError) -> str:
    """The hub's own, where it has one."""
    try:
        return str(json.loads(error.response.body)["message"])
    except (AttributeError, ValueError, KeyError, TypeError):
        return str(error)
