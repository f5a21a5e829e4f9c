"""Amounts of resources, as Kubernetes and its quotas name them, and for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tornado import web

from strata_hub import TENANT_LABEL

Amounts = Mapping[str, float]
"""By resource, as Kubernetes names them: CPUs, bytes, accelerators."""
USER_ANNOTATION = "hub.jupyter.org/username"
ENDED = ("Succeeded", "Failed")
SUFFIXES = {"m": 1e-3, **{f"{unit}i": 1024.0**n for n, unit in enumerate("KMGT", 1)}}
SUFFIXES |= {unit: 1000.0**n for n, unit in enumerate("kMGT", 1)}
GIB = 2**30
CONFLICT = 409
TITLES = {"cpu": "CPUs", "memory": "memory", "limits.memory": "memory (limits)", "pods": "pods"}


class StartError(web.HTTPError):  # type: ignore[misc]
    """A server cannot start now: the answer to the request, and `jupyterhub_message` on the page of the start."""

    def __init__(self, message: str) -> None:
        self.jupyterhub_message = message
        super().__init__(CONFLICT, message)


def quantity(value: object) -> float:
    """Kubernetes' quantity as a number."""
    number, suffix = re.fullmatch(r"([0-9.eE+-]*[0-9.])([A-Za-z]*)", str(value)).groups()  # type: ignore[union-attr]  # the API server checks them
    return float(number) * SUFFIXES.get(suffix, 1.0)


def effective(resources: Mapping[str, Any]) -> dict[str, Any]:
    """What a container requests; by default its limits.

    Args:
        resources: `limits` and `requests` of the container.
    """
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def requested(resources: Mapping[str, Any]) -> dict[str, float]:
    """`effective` as numbers."""
    return {name: quantity(value) for name, value in effective(resources).items()}


def servers(pods: Iterable[Mapping[str, Any]], tenant: str) -> dict[str, Amounts]:
    """What the tenant's servers request, by user; one that stops does not count.

    Args:
        pods: of all users, as Kubernetes' API returns them.
        tenant: name of the tenant.
    """
    by_user = {}
    for pod in pods:
        metadata = pod.get("metadata", {})
        if metadata.get("labels", {}).get(TENANT_LABEL) != tenant or "deletionTimestamp" in metadata:
            continue
        if pod["status"].get("phase") not in ENDED:
            user = metadata.get("annotations", {}).get(USER_ANNOTATION, metadata.get("name", "?"))
            by_user[user] = requested(pod["spec"]["containers"][0].get("resources") or {})
    return by_user


def needed_by(pod: Mapping[str, Any]) -> dict[str, float]:
    """What a quota counts for a pod, by its names: `requests.cpu`, `limits.memory`, `pods`."""
    needed = {"pods": 1.0}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        amounts = {f"requests.{name}": amount for name, amount in requested(resources).items()}
        if memory := (resources.get("limits") or {}).get("memory"):
            amounts["limits.memory"] = quantity(memory)
        needed |= {name: needed.get(name, 0.0) + amount for name, amount in amounts.items()}
    return needed


def titles_of(accelerators: Mapping[str, Any]) -> dict[str, str]:
    """Names of resources for people: of accelerators their kinds."""
    titles = dict(TITLES)
    for kind, card in accelerators.items():
        titles[card["resource"]] = f"{titles[card['resource']]}/{kind}" if card["resource"] in titles else kind
        if card["countedAs"]:
            titles[card["countedAs"]] = kind
    return titles


def text(name: str, amount: float) -> str:
    """An amount of a resource of a quota, for people."""
    return f"{amount / GIB:.4g} GiB" if name.endswith("memory") else f"{round(amount, 3):g}"
