"""The tenant's quota for all its servers, which run in one namespace with those of other tenants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tornado import web

from strata_hub import TENANT_LABEL
from strata_hub.configuration import Limits

Amounts = Mapping[str, float]
"""By resource, as Kubernetes names them: CPUs, bytes, accelerators."""
USER_ANNOTATION = "hub.jupyter.org/username"
ENDED = ("Succeeded", "Failed")
SUFFIXES = {"m": 1e-3, **{f"{unit}i": 1024.0**n for n, unit in enumerate("KMGT", 1)}}
SUFFIXES |= {unit: 1000.0**n for n, unit in enumerate("kMGT", 1)}
GIB = 2**30
CONFLICT = 409
TITLES = {"cpu": "CPUs", "memory": "memory"}


class StartError(web.HTTPError):  # type: ignore[misc]
    """A server cannot start now: the answer to the request, and `jupyterhub_message` on the page of the start."""

    def __init__(self, message: str) -> None:
        self.jupyterhub_message = message
        super().__init__(CONFLICT, message)


def quantity(value: object) -> float:
    """Kubernetes' quantity as a number."""
    number, suffix = re.fullmatch(r"([0-9.eE+-]*[0-9.])([A-Za-z]*)", str(value)).groups()  # type: ignore[union-attr]  # the API server checks them
    return float(number) * SUFFIXES.get(suffix, 1.0)


def requested(resources: Mapping[str, Any]) -> dict[str, float]:
    """What a container requests; by default its limits.

    Args:
        resources: `limits` and `requests` of the container.
    """
    found = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(value) for name, value in found.items()}


def by_kind(amounts: Amounts, selector: Mapping[str, str], accelerators: Mapping[str, Any]) -> Amounts:
    """Amounts of accelerators by their kind, which the node's labels tell: several kinds may share a resource.

    Args:
        amounts: by resource.
        selector: of the pod's node.
        accelerators: kind to `resource` and `nodeSelector`.
    """
    found = dict(amounts)
    # the closest match first
    for kind, card in sorted(accelerators.items(), key=lambda one: -len(one[1]["nodeSelector"])):
        if card["nodeSelector"].items() <= selector.items() and card["resource"] in found:
            found[kind] = found.pop(card["resource"])
    return found


def servers(
    pods: Iterable[Mapping[str, Any]], tenant: str, accelerators: Mapping[str, Any] | None = None
) -> dict[str, Amounts]:
    """What the tenant's servers request, by user; one that stops does not count.

    Args:
        pods: of all users, as Kubernetes' API returns them.
        tenant: name of the tenant.
        accelerators: as `by_kind` takes them; None for amounts by resource.
    """
    found = {}
    for pod in pods:
        metadata = pod.get("metadata", {})
        if metadata.get("labels", {}).get(TENANT_LABEL) != tenant or "deletionTimestamp" in metadata:
            continue
        if pod["status"].get("phase") not in ENDED:
            user = metadata.get("annotations", {}).get(USER_ANNOTATION, metadata.get("name", "?"))
            amounts = requested(pod["spec"]["containers"][0].get("resources") or {})
            found[user] = by_kind(amounts, pod["spec"].get("nodeSelector") or {}, accelerators or {})
    return found


def check(tenant: str, needed: Amounts, others: Mapping[str, Amounts], limits: Amounts) -> None:
    """Accepts a server that fits into the tenant's quota beside the others.

    Args:
        tenant: name of the tenant.
        needed: what the server requests, accelerators by kind.
        others: what the tenant's other servers request, by user.
        limits: of the tenant; what has none is not limited.

    Raises:
        StartError: it does not fit.
    """
    for resource, limit in limits.items():
        need = needed.get(resource, 0.0)
        users = {user: amounts[resource] for user, amounts in others.items() if amounts.get(resource)}
        used = sum(users.values())
        # sums of thousandths
        if need and used + need > limit + 1e-6:
            title = TITLES.get(resource, resource)
            whom = f"the servers of {', '.join(sorted(users))}" if users else "no server"
            raise StartError(
                f"The quota of tenant {tenant} is reached: {_text(resource, used)} of {_text(resource, limit)} "
                f"{title} requested by {whom}, and this server requests {_text(resource, need)}. "
                "Choose a smaller profile, ask them to stop a server, or ask your principal investigators; "
                "the operators of this site can raise the quota."
            )


def limits_of(limits: Limits) -> dict[str, float]:
    """By resource, of accelerators by kind: those that the quota does not name are for profiles to limit."""
    cards = {kind: float(count) for kind, count in limits.accelerators.items()}
    return {"cpu": float(limits.cpu), "memory": float(limits.memory), **cards}


def titles_of(accelerators: Mapping[str, Any]) -> dict[str, str]:
    """Names of resources for people: of accelerators their kinds."""
    found = dict(TITLES)
    for kind, card in accelerators.items():
        found[card["resource"]] = f"{found[card['resource']]}/{kind}" if card["resource"] in found else kind
    return found


def _text(resource: str, amount: float) -> str:
    return f"{amount / GIB:g} GiB" if resource == "memory" else f"{round(amount, 3):g}"
