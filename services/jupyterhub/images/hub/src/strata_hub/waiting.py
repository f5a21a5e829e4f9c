"""The spawner of the site: what a server waits for, on the page of its start."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from typing import Any, ClassVar

from aiohttp import ClientError
from jupyterhub.utils import utcnow
from kubernetes_asyncio.client.rest import ApiException
from traitlets import Dict, Integer

from strata_hub import TENANT_LABEL
from strata_hub.quota import StartError, requested, servers
from strata_hub.reservations import Reservations
from strata_hub.spawner import DatasetSpawner

QUEUE_SECONDS = 1800
"""How long a server waits while `maximum_servers` run."""
POLL_SECONDS = 1.0
MARGIN_SECONDS = 2.0
"""By which this spawner gives up before the hub, which does not know why."""
FORBIDDEN = 403


def unschedulable(pod: Mapping[str, Any] | None) -> str:
    """What the scheduler reports of a pod for which no node has the resources; empty if one has, or is made free."""
    status = (pod or {}).get("status", {})
    if status.get("nominatedNodeName"):
        return ""
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message", ""))
    return ""


class SiteSpawner(DatasetSpawner):
    """Queues servers while `maximum_servers` run, and names what a server waits for or why it does not start."""

    maximum_servers = Integer(0, config=True, help="Servers of all users at one time; 0 for no limit.")
    idle_seconds = Integer(0, config=True, help="After which an idle server stops; 0 for never.")
    titles = Dict(config=True, help="Names of resources for people.")
    reservations: ClassVar[Reservations]
    """Of the hub."""
    tenant: str | None = None
    """Whose quota the server uses."""
    _queue: ClassVar[list[SiteSpawner]] = []
    _queued_until = 0.0

    async def reserve(self, tenant: str | None, pod: Any) -> None:
        """Room for the pod in the tenant's quota; a user without a tenant has none.

        Args:
            tenant: name of the tenant.
            pod: V1Pod.

        Raises:
            StartError: the quota has no room for it.
        """
        self.tenant = tenant
        if tenant is not None:
            content = self.api.api_client.sanitize_for_serialization(pod)
            await self.reservations.take(self.api, tenant, content, self.user.name)

    async def stop(self, now: bool = False) -> None:
        """Also gives the room back; what fails here is made up for by `Reservations.compare`."""
        await super().stop(now)
        await self._release()

    async def _release(self) -> None:
        if self.tenant is not None:
            with suppress(ApiException, ClientError, TimeoutError):
                await self.reservations.release(self.api, self.tenant, self.pod_name)

    def get_state(self) -> dict[str, Any]:
        """What a restarted hub knows of the server."""
        return {**super().get_state(), **({"tenant": self.tenant} if self.tenant else {})}

    def load_state(self, state: dict[str, Any]) -> None:
        """As `get_state` returns it."""
        super().load_state(state)
        self.tenant = state.get("tenant")

    async def _start_reflector(self, kind: str, *arguments: Any, **options: Any) -> Any:
        """KubeSpawner keeps a list of pods that failed to load, for which all later starts would wait."""
        try:
            return await super()._start_reflector(kind, *arguments, **options)
        except Exception as error:
            failed = self.reflectors.pop(self._get_reflector_key(kind), None)
            if failed is not None and not failed.first_load_future.done():
                failed.first_load_future.set_exception(error)
                failed.first_load_future.exception()  # seen, even if nothing waits for it
            raise

    async def run_pre_spawn_hook(self) -> None:
        """Before the start, whose time it does not use."""
        # of the server before
        self._start_future = self.tenant = None
        if limit := self._limit():
            await self._turn(limit)
            # the hub asked before the queue, where permissions may have ended
            if not await self.authenticator.refresh_user(self.user):
                raise StartError("Your login ended while your server waited. Log in again, then start it again.")
        result = super().run_pre_spawn_hook()
        if isawaitable(result):
            await result

    async def _start(self) -> Any:
        try:
            return await self._start_in_time()
        except BaseException:
            # no pod, or one that the hub stops
            await self._release()
            raise

    async def _start_in_time(self) -> Any:
        seconds = max(MARGIN_SECONDS, self.start_timeout - MARGIN_SECONDS)
        try:
            return await asyncio.wait_for(self._start_pod(), seconds)
        except TimeoutError as error:
            why = self._waits_for() or f"{error or 'The last messages of Kubernetes show what it waited for.'}"
            raise StartError(f"The server did not start within {seconds:.0f} s. {why} Try again later.") from None
        except ApiException as error:
            if error.status != FORBIDDEN or "exceeded quota" not in str(error.body):
                raise
            message = json.loads(error.body)["message"].partition("exceeded quota: ")[2]
            raise StartError(
                f"The quota for all servers of this site is reached: {message}. Try again when others have stopped "
                "theirs, or ask the operators of this site."
            ) from None

    async def _start_pod(self) -> Any:
        return await super()._start()

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """The place in the queue, then KubeSpawner's events and what the pod waits for."""
        shown = ""
        while self in self._queue:
            if (text := self._place()) != shown:
                shown = text
                yield {"progress": 0, "message": text}
            await asyncio.sleep(POLL_SECONDS)
        progress, events = 0, super().progress()
        following = asyncio.ensure_future(anext(events))
        try:
            while True:
                # the pod's condition may come after the last event
                await asyncio.wait({following}, timeout=POLL_SECONDS)
                if (text := self._waits_for()) and text != shown:
                    shown = text
                    yield {"progress": progress, "message": text}
                if following.done():
                    event = following.result()
                    following = asyncio.ensure_future(anext(events))
                    progress = event["progress"]
                    yield event
        except StopAsyncIteration:
            return
        finally:
            following.cancel()

    def _limit(self) -> int:
        return int(self.maximum_servers)

    def _spawners(self) -> Iterator[SiteSpawner]:
        for user in self.user.settings["users"].values():
            yield from user.spawners.values()

    def _running(self) -> list[SiteSpawner]:
        return [spawner for spawner in self._spawners() if spawner.active and spawner not in self._queue]

    async def _turn(self, limit: int) -> None:
        begin = time.monotonic()
        self._queued_until = time.time() + QUEUE_SECONDS
        self._queue.append(self)
        try:
            # by its place, so that all who may start do so at their next check, not one after the other
            while self._queue.index(self) >= limit - len(self._running()):
                if time.monotonic() - begin > QUEUE_SECONDS:
                    raise StartError(
                        f"All {limit} servers of this site were in use for {QUEUE_SECONDS // 60} min. Try again later, "
                        "or ask the operators of this site, who can raise maximum_servers."
                    )
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._queue.remove(self)
        # else the culler would take the time in the queue for idleness
        self.orm_spawner.started = self.orm_spawner.last_activity = utcnow(with_tz=False)

    def _place(self) -> str:
        before, limit = self._queue.index(self), self._limit()
        ahead = f"{before} wait before you" if before else "you are the next"
        text = f"All {limit} servers of this site are in use; {ahead}. Your server starts as soon as one stops"
        used = [
            spawner.orm_spawner.last_activity or spawner.orm_spawner.started
            for spawner in self._running()
            if spawner.ready
        ]
        times = [used_at + timedelta(seconds=self.idle_seconds) for used_at in used if used_at is not None]
        if self.idle_seconds and times:
            text += f", an idle one at {min(times):%H:%M} UTC unless its user returns"
        return f"{text}. It waits until {datetime.fromtimestamp(self._queued_until, UTC):%H:%M} UTC."

    def _waits_for(self) -> str:
        reflector = self.pod_reflector
        pods = reflector.pods if reflector else {}
        pod = pods.get(f"{self.namespace}/{self.pod_name}")
        message = unschedulable(pod)
        if pod is None or not message:
            return ""
        needed = requested(pod["spec"]["containers"][0].get("resources") or {})
        missing = [name for name in re.findall(r"Insufficient ([^\s,]+?)[.,](?:\s|$)", message) if name in needed]
        # cpu and memory are short on nodes without the accelerator too
        scarce = [name for name in missing if name not in ("cpu", "memory")] or missing
        if not scarce:
            return f"No node accepts this server: {message} Ask the operators of this site."
        tenant = pod["metadata"].get("labels", {}).get(TENANT_LABEL, "")
        return " ".join(self._scarce(name, needed[name], pods.values(), tenant) for name in dict.fromkeys(scarce))

    def _scarce(self, resource: str, need: float, pods: Any, tenant: str) -> str:
        title = self.titles.get(resource, resource)
        size = f"{need / 2**30:g} GiB" if resource == "memory" else f"{need:g}"
        text = f"No node has free {title}: this server requests {size}."
        others = [pod for pod in pods if pod.get("spec", {}).get("nodeName")]
        holders = [user for user, amounts in servers(others, tenant).items() if amounts.get(resource)]
        if resource not in ("cpu", "memory"):
            used = sum(
                requested(pod["spec"]["containers"][0].get("resources") or {}).get(resource, 0) for pod in others
            )
            text += f" Servers of this site use {used:g}"
            text += f", of your tenant those of {', '.join(sorted(holders))}." if holders else ", none of your tenant."
        return f"{text} It starts as soon as enough is free; a profile that requests less may start now."
