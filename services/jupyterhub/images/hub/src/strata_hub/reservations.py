"""A tenant's quota: servers run in another namespace, so each holds its room by a pod that is never scheduled."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import ClientError
from kubernetes_asyncio.client.rest import ApiException
from kubespawner.clients import load_config, shared_client
from tornado.log import app_log

from strata_hub import TENANT_LABEL
from strata_hub.quota import ENDED, Amounts, StartError, effective, needed_by, quantity, text

LABEL = "strata.dev/reservation"
USER_ANNOTATION = "strata.dev/reserved-for"
JOB, SERVER = "job", "server"
"""Values of the label; a server takes the room of jobs."""
PREFIX = "reservation-"
ROOM_SECONDS = 30.0
"""How long a server waits for the room of jobs that give way."""
SETTLE_SECONDS = 5.0
"""In which the quota shows that a reservation is gone."""
POLL_SECONDS = 0.5
COMPARE_SECONDS = 20.0
YOUNG = timedelta(minutes=2)
"""The pod of a younger reservation may not have been created yet."""
REQUEST_SECONDS = 10.0
FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
Object = Mapping[str, Any]


class Reservations:
    """Of all tenants' servers.

    Args:
        template: of a reservation, without name, image and resources.
        titles: names of resources for people.
        accelerators: kind to `resource`, `nodeSelector` and `countedAs`, of the site's profiles.
    """

    def __init__(self, template: Object, titles: Mapping[str, str], accelerators: Mapping[str, Any]) -> None:
        self._template, self._titles, self._accelerators = template, titles, accelerators

    async def take(self, api: Any, tenant: str, pod: Object, user: str) -> None:
        """Reserves what a pod needs; jobs give way, the newest first.

        Args:
            api: CoreV1Api.
            tenant: name of the tenant and of its namespace.
            pod: as Kubernetes' API takes it.
            user: who the server is for.

        Raises:
            StartError: the tenant's quota has no room for it, also without jobs; the message names who uses it.
        """
        body = self.manifest(pod, user)
        needed = needed_by(body)
        end, settled = time.monotonic() + ROOM_SECONDS, 0.0
        while True:
            room = await self._room(api, tenant)
            short = missing(needed, room)
            if not short and await self._create(api, tenant, body):
                return
            now = time.monotonic()
            if now > end:
                raise await self._refusal(api, tenant, room, needed, short)
            if short and now > settled:
                if not await self._make_room(api, tenant, short):
                    raise await self._refusal(api, tenant, room, needed, short)
                settled = now + SETTLE_SECONDS
            await asyncio.sleep(POLL_SECONDS)

    async def release(self, api: Any, tenant: str, pod_name: str) -> None:
        """Deletes a server's reservation, if it has one."""
        await _delete(api, tenant, PREFIX + pod_name)

    async def compare(self, api: Any, tenants: Collection[str], namespace: str, now: datetime | None = None) -> None:
        """Deletes reservations whose server is gone; reserves for servers that have none, as far as there is room.

        Args:
            api: CoreV1Api.
            tenants: of the site.
            namespace: of the servers.
            now: for the age of reservations; None for the clock's.
        """
        oldest = (now or datetime.now(UTC)) - YOUNG
        held = {tenant: await self._listed(api, tenant, SERVER) for tenant in tenants}
        # after the reservations: a server that has started in between has none in this list, and is in the next
        selector = f"component=singleuser-server,{TENANT_LABEL}"
        pods = await _items(api.list_namespaced_pod, namespace, label_selector=selector)
        for tenant, reservations in held.items():
            running = {PREFIX + pod["metadata"]["name"]: pod for pod in _running(pods, tenant)}
            for reservation in reservations:
                created = datetime.fromisoformat(reservation["metadata"]["creationTimestamp"])
                if reservation["metadata"]["name"] not in running and created < oldest:
                    await _delete(api, tenant, reservation["metadata"]["name"])
            names = {reservation["metadata"]["name"] for reservation in reservations}
            for name in running.keys() - names:
                pod = running[name]
                body = self.manifest(pod, pod["metadata"].get("annotations", {}).get("hub.jupyter.org/username", name))
                if not missing(needed_by(body), await self._room(api, tenant)):
                    await self._create(api, tenant, body)

    async def keep(self, tenants: Collection[str], namespace: str) -> None:
        """Compares for ever.

        Args:
            tenants: of the site.
            namespace: of the servers.
        """
        load_config()
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            try:
                await self.compare(shared_client("CoreV1Api"), tenants, namespace)
            except (ApiException, ClientError, TimeoutError, ValueError) as error:
                app_log.warning("reservations are not compared with servers: %s", error)

    def manifest(self, pod: Object, user: str) -> dict[str, Any]:
        """The reservation of a server's pod: what its containers request; limits are not counted for more."""
        spec, reservation = pod["spec"], json.loads(json.dumps(self._template))
        container = spec["containers"][0]
        amounts = _requests(container.get("resources") or {})
        for card in self._accelerators.values():
            if card["resource"] in amounts and card["nodeSelector"].items() <= (spec.get("nodeSelector") or {}).items():
                amounts |= {card["countedAs"]: amounts[card["resource"]]} if card["countedAs"] else {}
        reservation["metadata"] |= {"name": PREFIX + pod["metadata"]["name"], "annotations": {USER_ANNOTATION: user}}
        resources = {"requests": amounts, "limits": {name: amount for name, amount in amounts.items() if name != "cpu"}}
        reservation["spec"]["containers"][0] |= {"image": container["image"], "resources": resources}
        return reservation

    async def _create(self, api: Any, tenant: str, body: Object) -> bool:
        try:
            await api.create_namespaced_pod(tenant, body, _request_timeout=REQUEST_SECONDS)
        except ApiException as error:
            if error.status == CONFLICT:
                # of the server before, which may have requested other amounts
                await _delete(api, tenant, body["metadata"]["name"])
            elif error.status != FORBIDDEN or "exceeded quota" not in str(error.body):
                raise
            return False
        return True

    async def _room(self, api: Any, tenant: str) -> dict[str, tuple[float, float]]:
        """Limit and rest of each resource that the tenant's quotas limit."""
        remaining: dict[str, tuple[float, float]] = {}
        for quota in await _items(api.list_namespaced_resource_quota, tenant):
            if quota["spec"].get("scopeSelector") or quota["spec"].get("scopes"):
                continue
            used = quota.get("status", {}).get("used", {})
            for name, value in quota["spec"].get("hard", {}).items():
                limit = quantity(value)
                rest = limit - quantity(used.get(name, 0))
                remaining[name] = min(remaining.get(name, (limit, rest)), (limit, rest), key=lambda pair: pair[1])
        return remaining

    async def _listed(self, api: Any, tenant: str, what: str) -> list[Object]:
        return await _items(api.list_namespaced_pod, tenant, label_selector=f"{LABEL}={what}")

    async def _make_room(self, api: Any, tenant: str, short: Amounts) -> bool:
        """Deletes the newest jobs' reservations that free what is short; none if all of them do not suffice."""
        left, chosen = dict(short), []
        jobs = await self._listed(api, tenant, JOB)
        for job in sorted(jobs, key=lambda job: str(job["metadata"]["creationTimestamp"]), reverse=True):
            freed = needed_by(job)
            if any(amount > 0 and freed.get(name) for name, amount in left.items()):
                left = {name: amount - freed.get(name, 0) for name, amount in left.items()}
                chosen.append(job["metadata"]["name"])
        if any(amount > 1e-6 for amount in left.values()):
            return False
        for name in chosen:
            await _delete(api, tenant, name)
        return True

    async def _refusal(
        self, api: Any, tenant: str, room: Mapping[str, tuple[float, float]], needed: Amounts, short: Amounts
    ) -> StartError:
        if not short:
            return StartError(f"The room in the quota of tenant {tenant} was taken by others meanwhile. Try again.")
        pods = [pod for pod in await _items(api.list_namespaced_pod, tenant) if pod["status"].get("phase") not in ENDED]
        parts = []
        for name in short:
            limit, rest = room[name]
            title = self._titles.get(name.removeprefix("requests."), name)
            users = users_of(pods, name)
            whom = f" by {', '.join(f'{who} ({text(name, amount)})' for who, amount in users)}" if users else ""
            used = f"{text(name, limit - rest)} of {text(name, limit)} {title} are used{whom}"
            parts.append(f"{used}, and this server requests {text(name, needed[name])}")
        return StartError(
            f"The quota of tenant {tenant} is reached: {'; '.join(parts)}. Choose a smaller profile, ask them to stop "
            "what they do not need, or ask your principal investigators; operators of this site can raise the quota."
        )


def missing(needed: Amounts, room: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """What a pod needs beyond the rest of the tenant's quotas.

    Args:
        needed: as `needed_by` returns it.
        room: limit and rest by resource, as a quota names it; what is not in it has no limit.
    """
    # sums of thousandths
    return {name: need - room[name][1] for name, need in needed.items() if name in room and need > room[name][1] + 1e-6}


def users_of(pods: Iterable[Object], name: str) -> list[tuple[str, float]]:
    """Who uses how much of a resource of the quota, most first: users' servers, batch jobs, pods of the tenant.

    Args:
        pods: of the tenant's namespace that have not ended.
        name: of the resource, as a quota names it.
    """
    totals: dict[str, float] = {}
    for pod in pods:
        metadata = pod["metadata"]
        kind = metadata.get("labels", {}).get(LABEL)
        whom = f"the pod {metadata['name']}"
        if kind == SERVER:
            whom = f"the server of {metadata.get('annotations', {}).get(USER_ANNOTATION, '?')}"
        elif kind == JOB:
            whom = "batch jobs"
        if amount := needed_by(pod).get(name):
            totals[whom] = totals.get(whom, 0.0) + amount
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def _requests(resources: Object) -> dict[str, str]:
    """What a container requests, by default its limits, as Kubernetes' API takes it."""
    # KubeSpawner has CPUs as fractions and sizes as bytes
    return {
        name: f"{round(quantity(value) * 1000)}m" if name == "cpu" else str(value)
        for name, value in effective(resources).items()
    }


def _running(pods: Iterable[Object], tenant: str) -> list[Object]:
    return [
        pod
        for pod in pods
        if pod["metadata"]["labels"][TENANT_LABEL] == tenant
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in ENDED
    ]


async def _delete(api: Any, tenant: str, name: str) -> None:
    """A reservation that is gone is none."""
    try:
        await api.delete_namespaced_pod(name, tenant, _request_timeout=REQUEST_SECONDS)
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise


async def _items(method: Any, namespace: str, **options: Any) -> list[Object]:
    answer = await method(namespace, _request_timeout=REQUEST_SECONDS, _preload_content=False, **options)
    content = json.loads(await answer.read())
    if answer.status >= 300:
        raise ApiException(status=answer.status, reason=content.get("message"))
    items: list[Object] = content["items"]
    return items
