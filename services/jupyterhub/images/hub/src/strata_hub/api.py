"""The hub's API for the administrators of tenants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from tornado import web

from strata_hub.configuration import GROUP_NAME, InvalidConfigurationError, Limits, validate
from strata_hub.store import Store

PATH = r"/api/tenants/([^/]+)"
SCOPE = "custom:tenant-configuration:{}"
"""Of a tenant's administrators. Tokens that users request have it; those of their servers do not."""
MOST_BYTES = 64 * 1024


class _TenantHandler(APIHandler):
    """Refuses everyone but the tenant's administrators."""

    def initialize(self, limits: Mapping[str, Limits]) -> None:
        """Called by tornado with the limits of each tenant."""
        self._limits = limits

    def store(self, tenant: str) -> Store:
        """The tenant's configurations.

        Raises:
            HTTPError: 403 for all others, whether the tenant exists or not.
        """
        if self.current_user is None:
            raise web.HTTPError(403, "no login and no token; fix: Authorization: token TOKEN, from /hub/token")
        if tenant not in self._limits or SCOPE.format(tenant) not in self.expanded_scopes:
            raise web.HTTPError(
                403,
                f"{self.current_user.name} does not administer tenant {tenant}; "
                f"fix: a token of a user whose last login was in the group /tenants/{tenant}/admins",
            )
        return Store(self.db, tenant)

    def reply(self, value: object) -> None:
        """Writes JSON."""
        self.write(json.dumps(value))


class ChangesHandler(_TenantHandler):
    """Who changed what, and when."""

    def get(self, tenant: str) -> None:
        """The last changes, newest first."""
        self.reply(self.store(tenant).changes())


class AllHandler(_TenantHandler):
    """All configurations of a tenant."""

    def get(self, tenant: str) -> None:
        """By kind and name."""
        stored = self.store(tenant).all()
        named = {kind: {n: v for (k, n), v in stored.items() if k == kind} for kind in ("groups", "users")}
        self.reply({"tenant": stored.get(("tenant", ""), {}), **named})


class ConfigurationHandler(_TenantHandler):
    """One configuration: the tenant's own, a group's or a user's."""

    def get(self, tenant: str, kind: str, name: str = "") -> None:
        """The configuration, empty for none."""
        self.reply(self.store(tenant).all().get((kind, name), {}))

    def put(self, tenant: str, kind: str, name: str = "") -> None:
        """Replaces the configuration."""
        store = self.store(tenant)
        if len(self.request.body) > MOST_BYTES:
            raise web.HTTPError(400, f"body: {len(self.request.body)} bytes; fix: at most {MOST_BYTES}")
        value = self.get_json_body()
        try:
            _check_name(kind, name)
            validate(kind, value, self._limits[tenant])
        except InvalidConfigurationError as error:
            raise web.HTTPError(400, f"tenant {tenant}, {'/'.join(filter(None, (kind, name)))}: {error}") from None
        store.write((kind, name), value, self.current_user.name)
        self.reply(value)

    def delete(self, tenant: str, kind: str, name: str = "") -> None:
        """Removes the configuration."""
        self.store(tenant).write((kind, name), None, self.current_user.name)
        self.set_status(204)


def _check_name(kind: str, name: str) -> None:
    if kind == "groups" and not GROUP_NAME.fullmatch(name):
        raise InvalidConfigurationError("group", name, "is no name of a group", "lower-case letters, digits and -")
    if len(name) > 255:
        raise InvalidConfigurationError("user", name, "is no name of a user", "at most 255 characters")


def handlers(limits: Mapping[str, Limits]) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """For JupyterHub.extra_handlers.

    Args:
        limits: by tenant.
    """
    arguments = {"limits": limits}
    return [
        (rf"{PATH}/configuration", AllHandler, arguments),
        (rf"{PATH}/configuration/changes", ChangesHandler, arguments),
        (rf"{PATH}/configuration/(tenant)", ConfigurationHandler, arguments),
        (rf"{PATH}/configuration/(groups|users)/([^/]+)", ConfigurationHandler, arguments),
    ]
