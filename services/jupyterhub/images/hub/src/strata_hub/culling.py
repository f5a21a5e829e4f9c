"""Idle culling: what counts as activity, and when a user's server will be stopped."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import utcnow
from tornado import web

PATH = r"/api/users/([^/]+)/culling"
LONGEST_WARNING = 600


class QuietProxy(ConfigurableHTTPProxy):
    """Reports no activity: to the proxy each response and each ping of a WebSocket is activity, so an open page would
    keep its server forever. Servers report the activity of their users themselves."""

    async def get_all_routes(self, client: Any = None) -> dict[str, Any]:
        """The routes, as the hub checks them every minute."""
        routes: dict[str, Any] = await super().get_all_routes(client)
        for route in routes.values():
            route["data"].pop("last_activity", None)
        return routes


def next_stop(
    now: datetime, started: datetime, last_activity: datetime | None, idle_seconds: int, maximum_age_seconds: int
) -> dict[str, Any]:
    """When jupyterhub-idle-culler will stop a server, at its next check after that.

    Args:
        now: naive UTC, as the other times.
        started: of the server.
        last_activity: of the server; None for none.
        idle_seconds: of the culler.
        maximum_age_seconds: of the culler; 0 for no limit.

    Returns:
        `seconds` from now on, negative if the culler is late; `reason`: `idle` or `age`; `limit`, the seconds of that
        reason; `warning`: seconds before the stop from which on the user is warned.
    """
    limits = [("idle", idle_seconds, last_activity or started)]
    if maximum_age_seconds:
        limits.append(("age", maximum_age_seconds, started))
    seconds, reason, limit = min(
        (limit - (now - since).total_seconds(), reason, limit) for reason, limit, since in limits
    )
    return {"seconds": seconds, "reason": reason, "limit": limit, "warning": min(LONGEST_WARNING, limit // 4)}


class CullingHandler(APIHandler):
    """Answers whoever may use the user's server."""

    def initialize(self, idle_seconds: int, maximum_age_seconds: int) -> None:
        """Called by tornado with the arguments of `handlers`."""
        self._limits = (idle_seconds, maximum_age_seconds)

    async def refresh_auth(self, user: Any, force: bool = False) -> Any:  # noqa: ARG002  # the hub's signature
        """The user, as the server's token names it: a computation may outlive the login."""
        return user

    @needs_scope("access:servers")
    def get(self, user_name: str, server_name: str = "") -> None:
        """As `next_stop` returns it.

        Raises:
            HTTPError: 404: no such server runs.
        """
        user = self.find_user(user_name)
        server = None if user is None else user.orm_spawners.get(server_name)
        if server is None or server.started is None:
            raise web.HTTPError(404, f"no server of {user_name} runs")
        self.write(json.dumps(next_stop(utcnow(with_tz=False), server.started, server.last_activity, *self._limits)))


def handlers(idle_seconds: int, maximum_age_seconds: int) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """For JupyterHub.extra_handlers, with the culler's limits."""
    arguments = {"idle_seconds": idle_seconds, "maximum_age_seconds": maximum_age_seconds}
    return [(PATH, CullingHandler, arguments)]
