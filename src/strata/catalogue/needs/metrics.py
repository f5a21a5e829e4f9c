"""Metrics of a service, for the site's Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strata.catalogue.need import Need, pods_peer
from strata.catalogue.service import ServiceContext

MONITORING_NAMESPACE: Final = "monitoring"
"""Of the site's Prometheus; no tenant may have it."""
SCRAPERS: Final = (pods_peer(MONITORING_NAMESPACE, {"app.kubernetes.io/name": "prometheus"}),)
"""Peers of NetworkPolicies: pods that read metrics."""
ANNOTATION: Final = "prometheus.io/"
META: Final = "__meta_kubernetes_pod_"


@dataclass(frozen=True)
class MetricsAccess:
    """What makes pods a target.

    Args:
        annotations: of the pods that serve metrics.
        clients: peers of a NetworkPolicy that must reach the port.
    """

    annotations: Mapping[str, str]
    clients: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Metrics(Need[MetricsAccess]):
    """Metrics in the text format of Prometheus, over HTTP, on a port of the pods that no Ingress publishes.

    A site without a Prometheus has the annotations too; nothing reads them there.

    Args:
        port: TCP port of the pods.
        path: of the URL.
    """

    port: int
    path: str = "/metrics"

    @property
    def access(self) -> MetricsAccess:
        """For parts of the platform that are not services."""
        annotations = {"scrape": "true", "port": str(self.port), "path": self.path}
        return MetricsAccess({f"{ANNOTATION}{key}": value for key, value in annotations.items()}, SCRAPERS)

    def provide(self, context: ServiceContext[Any]) -> MetricsAccess:  # noqa: ARG002  # the same for every service
        """Annotations and peers."""
        return self.access


def scrape_config(namespaces: Sequence[str]) -> dict[str, Any]:
    """The job for all pods with the annotations, in the form of prometheus.yml; `job` is the service's name.

    Args:
        namespaces: of the pods.
    """
    label, annotation = f"{META}label_app_kubernetes_io_", f"{META}annotation_prometheus_io_"
    return {
        "job_name": "pods",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": list(namespaces)}}],
        "relabel_configs": [
            {"source_labels": [f"{annotation}scrape"], "regex": "true", "action": "keep"},
            {"source_labels": [f"{META}phase"], "regex": "Succeeded|Failed", "action": "drop"},
            # makes one target of all ports that the containers of a pod name
            *(
                {
                    "source_labels": [f"{META}ip", f"{annotation}port"],
                    "regex": f"({address});([0-9]+)",
                    "replacement": replacement,
                    "target_label": "__address__",
                }
                for address, replacement in (("[0-9.]+", "$1:$2"), (".*:.*", "[$1]:$2"))
            ),
            {"source_labels": [f"{annotation}path"], "regex": "(.+)", "target_label": "__metrics_path__"},
            {"source_labels": [f"{label}name"], "regex": "(.+)", "target_label": "job"},
            {"source_labels": [f"{label}instance"], "regex": "(.+)", "target_label": "service"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": [f"{META}name"], "target_label": "pod"},
            {"source_labels": [f"{META}node_name"], "target_label": "node"},
        ],
    }
