"""The Pulumi component of a release."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from strata.catalogue.service import Values
from strata.platform.releases import Release
from strata.site.paths import REPOSITORY
from strata.toolchain import charts, load_versions

CHARTS = "../../helm"
"""Seen from pulumi/platform: an absolute path would make the state depend on the checkout."""
TIMEOUT = 900
"""Seconds in which a release's pods must be ready, on machines whose disks or memory are slow for a while too."""


class ChartRelease(pulumi.ComponentResource):
    """A release, all or nothing.

    Args:
        release: what is released.
        values: of its chart.
        opts: with the provider of the cluster.
        after: releases that must be deployed before it, and removed after it.
    """

    def __init__(
        self, release: Release, values: Values, opts: pulumi.ResourceOptions, after: Sequence[ChartRelease] = ()
    ) -> None:
        super().__init__(f"strata:platform:{release.kind}", release.name, None, opts)
        helm = kubernetes.helm.v3.Release(
            release.name,
            kubernetes.helm.v3.ReleaseArgs(
                name=release.name,
                chart=_chart(release.chart, substitute=release.substitute),
                namespace=release.namespace,
                create_namespace=True,
                values=values,
                atomic=True,
                timeout=TIMEOUT,
            ),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, depends_on=list(after)),
        )
        self.status = helm.status
        self.register_outputs({"status": self.status})


def _chart(name: str, *, substitute: bool) -> str:
    """Directory of a chart; relative to pulumi/platform if it belongs to the repository."""
    if name not in load_versions().charts:
        return f"{CHARTS}/{name}"
    path = charts.SUBSTITUTES / name if substitute else charts.chart_directory(name)
    return f"../../{path.relative_to(REPOSITORY)}" if path.is_relative_to(REPOSITORY) else str(path)
