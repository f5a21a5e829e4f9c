"""The batch system for users' servers: the schedd of their tenant, and tokens, which they renew here while they run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.scopes import needs_scope
from tornado import web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from strata_hub import TENANT_LABEL
from strata_hub.pods import set_environment

PATH = r"/api/users/([^/]+)/batch-token"
ISSUER_SECONDS = 20.0
CREATED, BAD_REQUEST = 201, 400


class TokenHandler(APIHandler):
    """Issues a token to whoever may use the user's server, as that user only."""

    def initialize(
        self, url: str, secret: str, tenant_of: Callable[[Any], str | None], users: Mapping[str, str]
    ) -> None:
        """Called by tornado with the arguments of `handler`."""
        self._url, self._secret, self._tenant_of, self._users = url, secret, tenant_of, users
        self._ended: str | None = None

    async def refresh_auth(self, user: Any, force: bool = False) -> Any:
        """As the hub's; None if the user has to log in again."""
        refreshed = await super().refresh_auth(user, force)
        self._ended = None if refreshed else user.name
        return refreshed

    async def prepare(self) -> None:
        """As the hub's.

        Raises:
            HTTPError: 401: the login of the token's user has ended.
        """
        await super().prepare()
        if self._ended:
            raise web.HTTPError(401, f"the login of {self._ended} has ended; fix: log in to JupyterHub again")

    @needs_scope("access:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """`token` and `expires` (seconds since 1970) for `<tenant>.<user>`, of the tenant that the server's pod has.

        Raises:
            HTTPError: 403: the user cannot have one. 503: the batch system does not respond.
        """
        user = self.find_user(user_name)
        if user is None:
            raise web.HTTPError(404, f"no user {user_name}")
        tenant = self._tenant_of(user.spawners[server_name]) or self._users.get(user.name)
        if tenant is None:
            raise web.HTTPError(403, f"{user.name} is in no tenant of the site, and cannot submit jobs")
        request = HTTPRequest(
            self._url,
            "POST",
            {"Authorization": f"Bearer {self._secret}"},
            json.dumps({"tenant": tenant, "user": user.name}),
            connect_timeout=ISSUER_SECONDS,
            request_timeout=ISSUER_SECONDS,
        )
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise web.HTTPError(503, f"the batch system issues no tokens: {error}") from None
        text = response.body.decode(errors="replace")
        if response.code == BAD_REQUEST:
            raise web.HTTPError(403, f"the batch system refuses {tenant}.{user.name}: {text}")
        if response.code != CREATED:
            raise web.HTTPError(503, f"the batch system issues no tokens: {response.code} {text}")
        self.set_status(CREATED)
        self.write(text)


def handler(
    url: str, secret: str, tenant_of: Callable[[Any], str | None], users: Mapping[str, str]
) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """For JupyterHub.extra_handlers.

    Args:
        url: of the pool's issuer of tokens.
        secret: that the issuer knows the hub by.
        tenant_of: the tenant of a spawner's server.
        users: tenants of users who are in none.
    """
    return [(PATH, TokenHandler, {"url": url, "secret": secret, "tenant_of": tenant_of, "users": users})]


def with_schedd(
    hook: Callable[[Any, Any], Awaitable[Any]], schedds: Mapping[str, str], users: Mapping[str, str]
) -> Callable[[Any, Any], Awaitable[Any]]:
    """The hook of pods with HTCondor's configuration of the tenant that the server's pod has.

    Args:
        hook: that sets the tenant.
        schedds: host and port, by tenant.
        users: tenants of users who are in none.
    """

    async def change(spawner: Any, pod: Any) -> Any:
        pod = await hook(spawner, pod)
        tenant = (pod.metadata.labels or {}).get(TENANT_LABEL) or users.get(spawner.user.name)
        if tenant in schedds:
            set_environment(pod.spec.containers[0], {"_CONDOR_SCHEDD_HOST": schedds[tenant]})
        return pod

    return change
