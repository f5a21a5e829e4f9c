"""Waits until the platform's services answer through every node after their pods have changed."""

from __future__ import annotations

from typing import Any

import requests

from strata.access.https import site_session
from strata.access.kubectl import Unanswered, kubectl_json
from strata.catalogue.published import PublishedService, published
from strata.catalogue.site_services import installed
from strata.errors import UserError
from strata.progress import Progress
from strata.retry import wait_until
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with, ingress_nodes

PUBLISHED_SECONDS = 150.0
"""Longest wait in seconds: a kube-proxy that lost the API server asks for the pods' addresses again after up to 60 s
(client-go's reflector: 30 s, doubled by its jitter), twice if it met one that was just starting."""
REQUEST_SECONDS = 5.0
"""How long one request may take."""


def wait_for_services(context: SiteContext, progress: Progress) -> None:
    """Returns when each published service answers by every node, and no pod that ends can be the one that does.

    Helm is content with pods that are ready; nodes may still send requests to those that went.

    Raises:
        UserError: one does not respond in time; names it and why.
    """
    services = published(context.site)
    if not services or not hosts_with("load_balancer", context.site, context.cloud_outputs):
        return
    # the load balancer gives each connection to the next node
    times = max(1, len(ingress_nodes(context.site, context.cloud_outputs)))
    with site_session(context) as session:
        waiting = wait_until(
            lambda: "; ".join(_ending(context) or _unanswered(session, services, times)) or None,
            PUBLISHED_SECONDS,
            progress,
        )
    if waiting:
        raise UserError(
            f"the site's services do not respond: {waiting}",
            fix="`kubectl get pods --all-namespaces --output wide` shows which pod or node is down; fix it "
            "and run the same command again",
        )


def _ending(context: SiteContext) -> list[str]:
    """Pods of the services that are terminating and may still respond; users' pods have no owner."""
    pods: list[dict[str, Any]] = []
    try:
        for namespace in sorted({service.namespace_of(context.site) for service in installed(context.site)}):
            pods += kubectl_json(context, "get", "pods", "--namespace", namespace)["items"]
    except Unanswered as error:
        return [f"the API server: {error}"]
    ending = [p["metadata"] for p in pods if p["metadata"].get("deletionTimestamp")]
    return [f"{metadata['name']} to end" for metadata in ending if metadata.get("ownerReferences")]


def _unanswered(session: requests.Session, services: tuple[PublishedService, ...], times: int) -> list[str]:
    """Name and reason of each service that misses one of so many requests."""
    failures = []
    for service in services:
        url = service.health_url
        bad = 400 if service.health_path else 500
        for _ in range(times):
            try:
                status = session.get(url, headers={"Connection": "close"}, timeout=REQUEST_SECONDS).status_code
            except requests.RequestException as error:
                failures.append(f"{url}: {type(error).__name__}")
                break
            if status >= bad:
                failures.append(f"{url}: {status}")
                break
    return failures
