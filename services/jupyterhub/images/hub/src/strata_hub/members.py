"""Whoever loses a tenant or the hub at the issuer loses servers, tokens and batch jobs, without a request of theirs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from jupyterhub import orm
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from strata_hub import TENANT_LABEL
from strata_hub.leaving import Hub, leave

AT_ONCE = 10
"""Users whom the issuer is asked about at a time."""
POOL_SECONDS = 60.0


@dataclass
class Loss:
    """What a user has lost.

    Args:
        first: response of the issuer that reported it, in seconds of a monotonic clock.
        last: the same.
        tenants: that the user was a member of.
        hub: whether the user may no longer use the hub.
    """

    first: float
    last: float
    tenants: set[str] = field(default_factory=set)
    hub: bool = False


class Losses:
    """Of all users. One that the issuer confirms after a while is real: a single answer may come from a realm that is
    being changed."""

    def __init__(self, tenants: Mapping[str, str], seconds: float) -> None:
        """Of the tenants, by name, with the group of each; confirmed by an answer that is `seconds` later."""
        self._groups, self._seconds = tenants, seconds
        self.found: dict[str, Loss] = {}

    def note(self, user: str, before: Iterable[str], now: Iterable[str], *, allowed: bool) -> None:
        """An answer of the issuer.

        Args:
            user: it is about.
            before: groups until now; those of the tenants of running servers, too.
            now: groups that the answer has.
            allowed: whether the user may use the hub.
        """
        known, had, has, at = self.found.pop(user, None), set(before), set(now), time.monotonic()
        tenants = {name for name, group in self._groups.items() if group in had} | (known.tenants if known else set())
        lost = {name for name in tenants if self._groups[name] not in has}
        if lost or not allowed:
            self.found[user] = Loss(known.first if known else at, at, lost, not allowed)

    def confirmed(self, user: str) -> Loss | None:
        """The user's loss, if it is real."""
        loss = self.found.get(user)
        return loss if loss is not None and loss.last - loss.first >= self._seconds else None


class Members:
    """Asks the issuer about everyone with a running server or batch jobs, and ends what was lost."""

    def __init__(self, app: Any, authenticator: Any) -> None:
        """Of the hub, once its services are known."""
        self._app, self._authenticator, self._losses = app, authenticator, authenticator.losses
        url = f"http://127.0.0.1:{app.hub.port}{app.hub.base_url}api"
        self._hub = Hub(url, app._service_map["leaving"].api_token)
        self._ended: dict[str, str] = {}
        """Refresh tokens of logins that have ended, by user: the issuer no longer reports these."""
        self.tenants_of_jobs: dict[str, set[str]] = {}
        """By owner."""

    async def check(self) -> None:
        """One round."""
        self.tenants_of_jobs = await self._owners()
        active = {user.name for user in list(self._app.users.values()) if user.active}
        active |= self.tenants_of_jobs.keys() | self._losses.found.keys()
        names = active - self._authenticator.unknown_users
        limit = asyncio.Semaphore(AT_ONCE)

        async def check_user(name: str) -> None:
            async with limit:
                try:
                    await self._check(name)
                except Exception:
                    # the next round is for all of them again
                    self._authenticator.log.exception("what %s may use was not checked", name)

        await asyncio.gather(*map(check_user, sorted(names)))

    async def _check(self, name: str) -> None:
        row = orm.User.find(self._app.db, name)
        user = None if row is None else self._app.users[row]
        if user is not None and self._losses.confirmed(name) is None:
            token = (await user.get_auth_state() or {}).get("refresh_token", "")
            if self._ended.get(name) == token:
                return
            if not await self._authenticator.refresh_user(user) and name not in self._losses.found:
                # a session that has ended: a server runs on, as decision 77 has it
                self._ended[name] = token
        loss = self._losses.confirmed(name)
        if loss is not None and await self._end(name, user, loss):
            self._losses.found.pop(name, None)

    async def _end(self, name: str, user: Any, loss: Loss) -> bool:
        """Ends what was lost; whether all of it has ended."""
        log = self._authenticator.log
        if user is not None and loss.hub:
            answer = await asyncio.to_thread(leave, self._hub, {"name": name, "dry_run": False})
            if problem := answer.get("problem"):
                log.error("%s may no longer use the hub, and still has a server: %s", name, problem)
                return False
            log.warning("%s may no longer use the hub; ended: %s", name, ", ".join(answer["ended"]) or "nothing")
        elif user is not None and loss.tenants & set(tenants_of_servers(user)):
            status, said = await asyncio.to_thread(self._hub.call, "DELETE", f"/users/{quote(name, safe='')}/server")
            if status >= 400:
                log.error("the server of %s, who has left its tenant, does not stop: %s %s", name, status, said)
                return False
            log.warning("%s has left tenant %s: the server was stopped", name, ", ".join(sorted(loss.tenants)))
        # who is out may have jobs of any tenant that the user was in earlier
        tenants = self._authenticator.tenants if loss.hub else loss.tenants
        return all([await self._remove_jobs(name, tenant) for tenant in sorted(tenants)])

    async def _owners(self) -> dict[str, set[str]]:
        """Tenants of the jobs in the pool, by owner; those of the last round if the pool does not respond."""
        if not self._authenticator.batch_url:
            return {}
        by_user: dict[str, set[str]] = {}
        try:
            for owner in json.loads(await self._ask_pool("GET", "/jobs"))["owners"]:
                tenant, _, name = owner.partition(".")
                by_user.setdefault(name, set()).add(tenant)
        except (HTTPClientError, OSError, ValueError, KeyError) as error:
            self._authenticator.log.warning("the pool does not report whose jobs it has: %s", error)
            return self.tenants_of_jobs
        return by_user

    async def _ask_pool(self, method: str, path: str) -> bytes:
        request = HTTPRequest(
            self._authenticator.batch_url.rpartition("/")[0] + path,
            method,
            {"Authorization": f"Bearer {os.environ['BATCH_TOKEN_SECRET']}"},
            request_timeout=POOL_SECONDS,
        )
        return bytes((await AsyncHTTPClient().fetch(request)).body)

    async def _remove_jobs(self, name: str, tenant: str) -> bool:
        if not self._authenticator.batch_url:
            return True
        try:
            await self._ask_pool("DELETE", f"/jobs/{quote(f'{tenant}.{name}', safe='')}")
        except (HTTPClientError, OSError) as error:
            self._authenticator.log.error("the batch jobs of %s.%s were not removed: %s", tenant, name, error)
            # 400: a name that the pool gives no tokens, and that has no jobs
            return isinstance(error, HTTPClientError) and error.code == 400
        return True


def tenants_of_servers(user: Any) -> list[str]:
    """Tenants that the pods of the user's running servers are labelled with."""
    tenants = []
    for spawner in user.spawners.values():
        if spawner.active:
            reflector = getattr(spawner, "pod_reflector", None)
            pod = reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}") if reflector else None
            tenants.append((pod or {}).get("metadata", {}).get("labels", {}).get(TENANT_LABEL))
    return [tenant for tenant in tenants if tenant]
