"""The hub's API for the administrators of tenants; members read its datasets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from tornado import web

from strata_hub import datasets
from strata_hub.configuration import GROUP_NAME, InvalidConfigurationError, Limits, validate
from strata_hub.sources import NOTHING, Allowed
from strata_hub.store import Store

PATH = r"/api/tenants/([^/]+)"
SCOPE = "custom:tenant-configuration:{}"
"""Of a tenant's administrators. Tokens that users request have it; those of their servers do not."""
READ_SCOPE = "custom:tenant-datasets:{}"
"""Of a tenant's members; likewise."""
MOST_BYTES = 64 * 1024


class _TenantHandler(APIHandler):
    """Admits the tenant's administrators or members, and no one else."""

    def initialize(self, limits: Mapping[str, Limits], sources: Mapping[str, Allowed]) -> None:
        """Called by tornado with the limits of each tenant, and the sources that its datasets may name."""
        self._limits, self._sources = limits, sources

    def store(self, tenant: str) -> Store:
        """What the tenant's administrators write.

        Raises:
            HTTPError: 403 for all others, whether the tenant exists or not.
        """
        return self._store(tenant, (SCOPE,), "does not administer", f"/tenants/{tenant}/admins")

    def readable(self, tenant: str) -> Store:
        """What the tenant's members read.

        Raises:
            HTTPError: 403 for all others, whether the tenant exists or not.
        """
        return self._store(tenant, (SCOPE, READ_SCOPE), "is not a member of", f"/tenants/{tenant}")

    def _store(self, tenant: str, scopes: tuple[str, ...], why: str, group: str) -> Store:
        if self.current_user is None:
            raise web.HTTPError(403, "no login and no token; fix: Authorization: token TOKEN, from /hub/token")
        if tenant not in self._limits or not {scope.format(tenant) for scope in scopes} & set(self.expanded_scopes):
            raise web.HTTPError(
                403,
                f"{self.current_user.name} {why} tenant {tenant}; fix: a token of a user in the group {group}",
            )
        return Store(self.db, tenant)

    def body(self) -> Any:
        """The request's JSON.

        Raises:
            HTTPError: 400: it is too long, or no JSON.
        """
        if len(self.request.body) > MOST_BYTES:
            raise web.HTTPError(400, f"body: {len(self.request.body)} bytes; fix: at most {MOST_BYTES}")
        return self.get_json_body()

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
        store, value = self.store(tenant), self.body()
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


class DatasetsHandler(_TenantHandler):
    """All datasets of a tenant."""

    def get(self, tenant: str) -> None:
        """By name."""
        self.reply(datasets.of(self.readable(tenant)))


class DatasetHandler(_TenantHandler):
    """One dataset."""

    def get(self, tenant: str, name: str) -> None:
        """The dataset."""
        by_name = datasets.of(self.readable(tenant))
        if name not in by_name:
            raise web.HTTPError(404, f"tenant {tenant} has no dataset {name[:63]}")
        self.reply(by_name[name])

    def put(self, tenant: str, name: str) -> None:
        """Registers the dataset, or replaces it."""
        store, value = self.store(tenant), self.body()
        try:
            datasets.validate(name, value, datasets.of(store), self._sources.get(tenant, NOTHING))
        except InvalidConfigurationError as error:
            raise web.HTTPError(400, f"tenant {tenant}, datasets/{name[:63]}: {error}") from None
        store.write((datasets.KIND, name), value, self.current_user.name)
        self.reply(value)

    def delete(self, tenant: str, name: str) -> None:
        """Removes the dataset from the next servers."""
        self.store(tenant).write((datasets.KIND, name), None, self.current_user.name)
        self.set_status(204)


def _check_name(kind: str, name: str) -> None:
    if kind == "groups" and not GROUP_NAME.fullmatch(name):
        raise InvalidConfigurationError("group", name, "is not the name of a group", "lower-case letters, digits and -")
    if len(name) > 255:
        raise InvalidConfigurationError("user", name, "is not the name of a user", "at most 255 characters")


def handlers(
    limits: Mapping[str, Limits], sources: Mapping[str, Allowed]
) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """For JupyterHub.extra_handlers.

    Args:
        limits: by tenant.
        sources: of datasets, by tenant.
    """
    arguments = {"limits": limits, "sources": sources}
    return [
        (rf"{PATH}/configuration", AllHandler, arguments),
        (rf"{PATH}/configuration/changes", ChangesHandler, arguments),
        (rf"{PATH}/configuration/(tenant)", ConfigurationHandler, arguments),
        (rf"{PATH}/configuration/(groups|users)/([^/]+)", ConfigurationHandler, arguments),
        (rf"{PATH}/datasets", DatasetsHandler, arguments),
        (rf"{PATH}/datasets/([^/]+)", DatasetHandler, arguments),
    ]
