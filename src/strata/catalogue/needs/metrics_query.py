"""Queries of the site's metrics, by the HTTP API of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import metrics_server


@dataclass(frozen=True)
class MetricsServer:
    """A server of the API in the cluster.

    Args:
        url: for pods, without `/api`.
        port: TCP port of the pods that serve it.
        pods: peer of NetworkPolicies: these pods.
    """

    url: str
    port: int
    pods: Mapping[str, Any]


@dataclass(frozen=True)
class MetricsQuery(Need[MetricsServer | None]):
    """Queries of the site's metrics by the service's pods, which have its name in `app.kubernetes.io/name`."""

    def provide(self, context: ServiceContext[Any]) -> MetricsServer | None:
        """Where the API is; None where no service of the site has it."""
        return metrics_server(context.site)
