"""A chart of another project that a service builds on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext, Values

NAMESPACE = "kube-system"
"""Of the releases, as of other controllers of the cluster."""


@dataclass(frozen=True)
class UpstreamChart(Need[str]):
    """A release of a chart of versions.yaml, named as the chart, in kube-system; the service's own release comes after.

    Args:
        chart: its name in versions.yaml.
        values: of the chart.
    """

    chart: str
    values: Callable[[ServiceContext[Any]], Values]

    def provide(self, context: ServiceContext[Any]) -> str:  # noqa: ARG002  # the same at every site
        """Namespace of the release."""
        return NAMESPACE
