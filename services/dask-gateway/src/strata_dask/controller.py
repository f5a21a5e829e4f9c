"""Upstream's controller, without Traefik's routes: the gateway's own proxy has them."""

from __future__ import annotations

from typing import Any

from dask_gateway_server.backends.kubernetes.controller import KubeController

NO_ROUTE = "none"


class Controller(KubeController):  # type: ignore[misc]  # it ships no types
    """Makes the pods, the Secret and the Service of each DaskCluster, and deletes them when it ends."""

    async def create_ingressroute_if_not_exists(self, cluster: Any, sched_pod: Any) -> str:  # noqa: ARG002  # upstream's
        """No route for Traefik."""
        return NO_ROUTE

    async def create_ingressroutetcp_if_not_exists(self, cluster: Any, sched_pod: Any) -> str:  # noqa: ARG002  # upstream's
        """No route for Traefik."""
        return NO_ROUTE
