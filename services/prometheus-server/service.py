"""Prometheus: metrics of hosts, nodes, pods, accelerators and services, with rules and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from strata.catalogue.needs import Namespace, Need, Priority
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE, SCRAPERS, scrape_config
from strata.catalogue.needs.metrics_query import MetricsServer
from strata.catalogue.service import Question, Service, ServiceContext, Values
from strata.catalogue.site_needs import query_clients, scraped_namespaces
from strata.catalogue.site_services import installed
from strata.models.finding import Finding
from strata.models.gpu_nodes import gpu_nodes
from strata.models.site import Site
from strata.roles import port
from strata_services.prometheus_server import alertmanager
from strata_services.prometheus_server.alerts import with_runbooks
from strata_services.prometheus_server.scrape import (
    COREDNS,
    KUBELET,
    NODE_EXPORTER,
    cluster_jobs,
    host_job,
)
from strata_services.prometheus_server.settings import PrometheusServer
from strata_services.prometheus_server.simulation import exporter

FOLDER = Path(__file__).parent
NAMESPACE = Namespace(MONITORING_NAMESPACE, "privileged")
"""Exporters of accelerators read files of their node."""
PRIORITY = Priority("platform")
PORT = 9090
"""Of its API."""
FULL = 0.8
"""Share of the volume that blocks may fill; the rest is for the write-ahead log and compaction."""


def needs(settings: PrometheusServer) -> tuple[Need[Any], ...]:
    """A namespace, whose pods policies admit to metrics; the secrets of those who receive alerts."""
    return (NAMESPACE, PRIORITY, *alertmanager.needs(settings.alertmanager))


def check(settings: PrometheusServer, site: Site, _: Path) -> Iterator[Finding]:
    """Those who receive alerts have the secrets that they need."""
    return alertmanager.check(settings.alertmanager, site)


def rule_files(site: Site) -> dict[str, str]:
    """Rules by file name: `rules/*.yaml` in the folders of the site's services, with runbooks, and what the site is."""
    files = {
        f"{service.name}-{file.name}": with_runbooks(file.read_text())
        for service in installed(site)
        for file in sorted(service.folder.glob("rules/*.yaml"))
    }
    return files | {"site.yaml": yaml.safe_dump({"groups": [{"name": "expected", "rules": expected(site)}]})}


def expected(site: Site) -> list[dict[str, Any]]:
    """Recording rules with the number of accelerators that each node has in site.yaml, of those that DCGM measures."""
    counts = {
        node: sum(count for kind, count in cards.items() if site.accelerators[kind].compute_capability)
        for node, cards in gpu_nodes(site).items()
    }
    return [
        {"record": "node:accelerators_expected:count", "expr": f"vector({count})", "labels": {"node": node}}
        for node, count in sorted(counts.items())
        if count
    ]


def scrape_configs(site: Site, hosts: Mapping[str, str]) -> list[dict[str, Any]]:
    """All jobs.

    Args:
        site: the site.
        hosts: name to address.
    """
    own = {"job_name": "prometheus", "static_configs": [{"targets": [f"localhost:{PORT}"]}]}
    return [own, scrape_config(scraped_namespaces(site)), *cluster_jobs(), host_job(hosts)]


def values(context: ServiceContext[PrometheusServer]) -> Values:
    """Values of helm/prometheus-server."""
    settings, site = context.settings, context.site
    return {
        "image": context.images["prometheus"],
        "site": site.name,
        "retention": f"{settings.retention}d",
        "retentionSize": f"{int(settings.storage.mebibytes * FULL)}MB",
        "scrapeInterval": f"{settings.scrape_interval}s",
        "storage": {"class": settings.storage_class or "", "size": f"{settings.storage.mebibytes}Mi"},
        "scrapeConfigs": scrape_configs(site, context.hosts),
        "rules": rule_files(site),
        "alertmanager": alertmanager.values(context, settings.alertmanager),
        "networkPolicy": {
            "namespaces": scraped_namespaces(site),
            "clients": query_clients(site),
            "dnsMetricsPort": COREDNS,
            "hostPorts": sorted({KUBELET, NODE_EXPORTER, port("kube_control_plane", "kubernetes-api")}),
        },
        "priorityClassName": context.provide(PRIORITY),
        "extraObjects": _simulation(context),
    }


def _simulation(context: ServiceContext[PrometheusServer]) -> list[dict[str, Any]]:
    """What serves the metrics of simulated cards; those of real cards come from NVIDIA's chart."""
    site = context.site
    if not site.simulates_accelerators or site.cluster is None or not site.cluster.gpu_nodes.labels:
        return []
    reference = context.base_image
    image = f"{reference['repository']}@{reference['digest']}"
    return exporter(site.cluster, site.accelerators.values(), image, context.provide(PRIORITY))


SERVICE = Service(
    folder=FOLDER,
    needs=needs,
    check=check,
    values=values,
    metrics_server=MetricsServer(f"http://{FOLDER.name}.{MONITORING_NAMESPACE}.svc:{PORT}", PORT, SCRAPERS[0]),
    questions=[
        Question("Prometheus", MONITORING_NAMESPACE, f"{FOLDER.name}-0", "prometheus", ("promtool", "check", "ready")),
    ],
)
