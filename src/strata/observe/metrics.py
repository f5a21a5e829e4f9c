"""What the site's Prometheus knows: promtool in its pod, with the operator's kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from strata.access.kubectl import kubectl
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE, SCRAPERS
from strata.catalogue.site_services import metrics_server
from strata.site.context import SiteContext

LOCAL = "http://localhost:9090"


@dataclass(frozen=True)
class Sample:
    """One value.

    Args:
        labels: of the series.
        value: at that time.
    """

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class MetricsSource:
    """A Prometheus.

    Args:
        context: the site.
        pod: that it runs in.
    """

    context: SiteContext
    pod: str

    def query(self, expression: str) -> list[Sample]:
        """The samples of an expression now.

        Args:
            expression: in PromQL.

        Raises:
            Unanswered: the cluster or Prometheus does not respond, or refuses the expression.
        """
        command = ("promtool", "query", "instant", "--format=json", LOCAL, expression)
        where = ("--namespace", MONITORING_NAMESPACE, "--container=prometheus")
        printed = kubectl(self.context, "exec", self.pod, *where, "--", *command)
        return [Sample(item["metric"], float(item["value"][1])) for item in json.loads(printed) or ()]


def metrics_of(context: SiteContext) -> MetricsSource | None:
    """The site's Prometheus; None where no service has one, or none of its pods runs.

    Raises:
        Unanswered: the cluster does not respond.
    """
    if metrics_server(context.site) is None:
        return None
    labels = SCRAPERS[0]["podSelector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    options = ("--namespace", MONITORING_NAMESPACE, "--selector", selector, "--output", "name")
    pods = kubectl(context, "get", "pods", *options, "--field-selector", "status.phase=Running").split()
    return MetricsSource(context, pods[0]) if pods else None
