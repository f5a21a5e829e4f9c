"""How many accelerators are free, on the page on which users choose a profile."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
from kubernetes_asyncio.client.rest import ApiException

from strata_hub import Profile
from strata_hub.quota import ENDED, quantity, requested

READ_SECONDS = 5.0
"""For so long, pages show one reading."""
REQUEST_SECONDS = 3.0
GIVE_WAY = "batch"
"""Priority class of pods that servers preempt."""
Object = Mapping[str, Any]


def counts(nodes: Iterable[Object], pods: Iterable[Object], resource: str, selector: Mapping[str, str]) -> list[int]:
    """Accelerators of the nodes that a pod with this selector can use: all, free, and those of pods that give way.

    Args:
        nodes: of the cluster, as Kubernetes' API returns them.
        pods: of all namespaces.
        resource: of the accelerators.
        selector: of the pod.
    """
    offered = {
        node["metadata"]["name"]: quantity(node["status"].get("allocatable", {}).get(resource, 0))
        for node in nodes
        if selector.items() <= node["metadata"].get("labels", {}).items() and _takes_pods(node)
    }
    used: Counter[str] = Counter()
    for pod in pods:
        spec = pod["spec"]
        if spec.get("nodeName") in offered and pod["status"].get("phase") not in ENDED:
            used[spec.get("priorityClassName", "")] += round(_request(spec, resource))
    total = round(sum(offered.values()))
    return [total, max(0, total - sum(used.values())), used[GIVE_WAY]]


def _takes_pods(node: Object) -> bool:
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", ())
    )
    return ready and not node["spec"].get("unschedulable")


def _request(spec: Object, resource: str) -> float:
    def of(containers: Iterable[Object]) -> list[float]:
        return [requested(container.get("resources") or {}).get(resource, 0.0) for container in containers]

    return max(sum(of(spec["containers"])), *of(spec.get("initContainers") or ()), 0.0)


def sentence(kind: str, total: int, free: int, give_way: int) -> str:
    """What users read."""
    text = f"{kind}: {free} of {total} free"
    return f"{text}, {give_way} more run batch jobs, which give way." if give_way else f"{text}."


class Cluster:
    """Nodes and pods as they were read last.

    Args:
        accelerators: kind to `resource` and `nodeSelector`, of the site's profiles.
    """

    def __init__(self, accelerators: Mapping[str, Any]) -> None:
        self.accelerators = accelerators
        self._lock, self._at = asyncio.Lock(), -READ_SECONDS
        self._objects: tuple[list[Object], list[Object]] | None = None

    async def described(self, profile: Profile, api: Any) -> Profile:
        """The profile, whose description has the number of its free accelerators."""
        override = profile.get("kubespawner_override", {})
        needed, selector = override.get("extra_resource_limits", {}), override.get("node_selector", {})
        for kind, card in self.accelerators.items():
            if card["resource"] in needed and card["nodeSelector"] == selector:
                objects = await self._read(api)
                text = f"{kind}: free ones unknown."
                if objects is not None:
                    text = sentence(kind, *counts(*objects, card["resource"], selector))
                return {**profile, "description": f"{profile.get('description', '')} {text}".strip()}
        return profile

    async def _read(self, api: Any) -> tuple[list[Object], list[Object]] | None:
        async with self._lock:
            if time.monotonic() - self._at >= READ_SECONDS:
                try:
                    self._objects = (
                        await _listed(api.list_node),
                        await _listed(
                            api.list_pod_for_all_namespaces,
                            field_selector=",".join(f"status.phase!={phase}" for phase in ENDED),
                        ),
                    )
                except (ApiException, aiohttp.ClientError, TimeoutError, ValueError):
                    self._objects = None
                self._at = time.monotonic()
            return self._objects


async def _listed(method: Callable[..., Awaitable[Any]], **options: Any) -> list[Object]:
    answer = await method(_request_timeout=REQUEST_SECONDS, _preload_content=False, **options)
    if not answer.ok:
        raise ApiException(status=answer.status)
    items: list[Object] = json.loads(await answer.read())["items"]
    return items


def with_free(
    choose: Callable[[Any], list[Profile]], accelerators: Mapping[str, Any]
) -> Callable[[Any], Awaitable[Sequence[Profile]]]:
    """The function that KubeSpawner calls for its profile list: the user's profiles, with what is free.

    Args:
        choose: the profiles of a spawner's user.
        accelerators: as Cluster takes them.
    """
    cluster = Cluster(accelerators)

    async def of(spawner: Any) -> Sequence[Profile]:
        return [await cluster.described(profile, spawner.api) for profile in choose(spawner)]

    return of
