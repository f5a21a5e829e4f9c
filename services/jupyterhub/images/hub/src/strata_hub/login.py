"""Logins at the issuer: what it no longer grants ends at the hub too, without a new login."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from jupyterhub.apihandlers.users import ActivityAPIHandler
from jupyterhub.handlers.pages import SpawnPendingHandler
from oauthenticator.generic import GenericOAuthenticator
from tornado import web
from tornado.httpclient import HTTPClientError
from tornado.ioloop import PeriodicCallback
from traitlets import Dict, Integer, Set, Unicode

from strata_hub.background import BackgroundTasks
from strata_hub.members import Losses, Members, tenants_of_servers
from strata_hub.service_tokens import remove_former

CONFIRMED = "strata_confirmed"
"""Entry of the authentication state: when the issuer last confirmed it, in seconds since 1970."""


ISSUER_SECONDS = 20.0
"""In which the issuer responds before a start; the limit of the hub's requests."""
POLL_SECONDS = 0.1
DISABLED = "User disabled"
"""Keycloak's description of a refused refresh; all others, also those of other issuers, may mean that a login ended."""


class ReportHandler(ActivityAPIHandler):  # type: ignore[misc]
    """Accepts activity without the issuer: a server that computes for longer than its user's login is not idle."""

    async def refresh_auth(self, user: Any, force: bool = False) -> Any:  # noqa: ARG002  # the hub's signature
        """The user, as the server's token names it."""
        return user


class PendingHandler(SpawnPendingHandler):  # type: ignore[misc]
    """The page of a start, which opens before the hub has asked the issuer about the user when many users start servers
    at once: the hub would report that the server is not running, and offer to start it."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self, user_name: str) -> None:
        """Waits until the start has begun, or was refused."""
        starts, user = self.authenticator.starts, self.find_user(user_name)
        while user is not None and starts.get(user_name, 0.0) > time.monotonic() - ISSUER_SECONDS:
            if user.spawner.active or user.spawner._failed:
                break
            await asyncio.sleep(POLL_SECONDS)
        starts.pop(user_name, None)
        await super().get(user_name)


class SiteAuthenticator(BackgroundTasks, GenericOAuthenticator):  # type: ignore[misc]
    """Reads a user's groups from the issuer at each start of a server, and for requests where they are older than
    `auth_refresh_age`. A user whose login has ended, whose account is disabled, or who may no longer use the hub, has
    to log in again; tokens of the user are refused until then."""

    silence_seconds = Integer(900, config=True, help="How long groups are valid while the issuer does not respond.")
    unknown_users = Set(Unicode(), config=True, help="Users of the site's checks; the issuer has no such accounts.")
    check_seconds = Integer(20, config=True, help="Between two checks of users with running servers or batch jobs.")
    tenants = Dict(config=True, help="Groups of the tenants' members, by the tenant's name.")
    batch_url = Unicode(config=True, help="Where the batch system issues tokens; empty: there is none.")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._locks: dict[str, asyncio.Lock] = {}
        self._last: dict[str, tuple[float, bool]] = {}
        self.starts: dict[str, float] = {}
        """When the hub began to ask about users who start servers."""
        self.losses = Losses(self.tenants, self.check_seconds / 2)
        self._disabled: set[str] = set()
        """Refresh tokens that the issuer refused because the account is disabled."""

    def get_handlers(self, app: Any) -> list[tuple[Any, ...]]:
        """The hub prefers these to its own. Called once its services are known: the rounds begin."""
        remove_former(app.db, app.service_tokens)
        self._members = Members(app, self)
        self._rounds = PeriodicCallback(self._members.check, self.check_seconds * 1000)
        self._rounds.start()
        own = [(r"/api/users/([^/]+)/activity", ReportHandler), (r"/spawn-pending/([^/]+)", PendingHandler)]
        return [*super().get_handlers(app), *own]

    def build_auth_state_dict(self, token_info: Any, user_info: Any) -> dict[str, Any]:
        """With the time, both at logins and later."""
        return {**super().build_auth_state_dict(token_info, user_info), CONFIRMED: time.time()}

    async def get_token_info(self, handler: Any, params: Mapping[str, Any]) -> Any:
        """As upstream's, which does not give the reason of a refused refresh."""
        try:
            return await super().get_token_info(handler, params)
        except HTTPClientError as error:
            if "refresh_token" in params and _description(error) == DISABLED:
                self._disabled.add(params["refresh_token"])
            raise

    async def update_auth_model(self, auth_model: Any) -> dict[str, Any]:
        """A user who is no longer in `admin_users` is not an administrator."""
        updated = await super().update_auth_model(auth_model)
        return {**updated, "admin": updated["name"] in self.admin_users}

    async def check_allowed(self, username: str, auth_model: Any) -> Any:
        """No user's login is the name of the checks' user, whatever the issuer calls its users."""
        return username not in self.unknown_users and await super().check_allowed(username, auth_model)

    async def refresh_user(self, user: Any, handler: Any = None, **options: Any) -> Any:
        """As the hub calls it: a model, True (no change), or False (the user has to log in again).

        Raises:
            HTTPError: 503 at the start of a server: the issuer does not respond.
        """
        if user.name in self.unknown_users:
            return True
        begin = time.monotonic()
        if _starts_a_server(handler):
            self.starts[user.name] = begin
        refreshed = False
        try:
            # issuers that replace refresh tokens accept each of them once
            async with self._locks.setdefault(user.name, asyncio.Lock()):
                at, refreshed = self._last.get(user.name, (0.0, False))
                if at < begin:
                    refreshed = await self._refresh(user, handler, options)
                    self._last[user.name] = (time.monotonic(), bool(refreshed))
                return refreshed
        finally:
            if not refreshed:
                self.starts.pop(user.name, None)

    async def _refresh(self, user: Any, handler: Any, options: Mapping[str, Any]) -> Any:
        try:
            model = await super().refresh_user(user, handler, **options)
        except (HTTPClientError, OSError, ValueError) as error:
            return await self._unconfirmed(user, handler, error)
        before = {group.name for group in user.groups}
        tenants = {*tenants_of_servers(user), *self._members.tenants_of_jobs.get(user.name, ())}
        before |= {self.tenants[tenant] for tenant in tenants if tenant in self.tenants}
        if not model:
            refused = (await user.get_auth_state() or {}).get("refresh_token")
            if refused in self._disabled:
                self._disabled.discard(refused)
                self.losses.note(user.name, before, (), allowed=False)
            return False
        # before the next request of the user is let in
        user.sync_groups(model["groups"])
        await user.save_auth_state(model["auth_state"])
        allowed = bool(await self.check_allowed(user.name, model))
        self.losses.note(user.name, before, model["groups"], allowed=allowed)
        if allowed:
            return model
        self.log.warning("%s may no longer use the hub: the groups are %s", user.name, model["groups"])
        return False

    async def _unconfirmed(self, user: Any, handler: Any, error: Exception) -> bool:
        state = await user.get_auth_state() or {}
        age = time.time() - state.get(CONFIRMED, 0)
        self.log.warning(
            "the issuer does not confirm the groups of %s, which are %.0f s old: %s", user.name, age, error
        )
        if age <= self.silence_seconds:
            return True
        if _starts_a_server(handler):
            raise web.HTTPError(
                503, "The site's login does not respond, and your permissions cannot be checked. Try again in a minute."
            )
        return False


def _starts_a_server(handler: Any) -> bool:
    """Whether a request asks about its user again; the hub sets the attribute when it has asked first."""
    return hasattr(handler, "_jupyterhub_user")


def _description(error: HTTPClientError) -> str:
    """Of a refusal by OAuth 2.0 (RFC 6749, section 5.2); empty for none."""
    try:
        body = json.loads(error.response.body)
    except (AttributeError, TypeError, ValueError):
        return ""
    return str(body.get("error_description", "")) if isinstance(body, dict) else ""
