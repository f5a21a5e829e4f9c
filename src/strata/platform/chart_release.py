"""The Pulumi component of a release."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from strata.catalogue.service import Values
from strata.errors import UserError
from strata.models.site import Site
from strata.platform.operator_values import has_null
from strata.platform.releases import Release
from strata.site.paths import REPOSITORY

FROM_PROGRAM = "../.."
"""The repository seen from pulumi/platform: an absolute path would make the state depend on the checkout."""
TIMEOUT = 900
"""Seconds in which a release's pods must be ready, on machines whose disks or memory are slow for a while too."""


class ChartRelease(pulumi.ComponentResource):
    """A release, all or nothing.

    Args:
        release: what is released.
        site: that has it.
        values: of its chart.
        opts: with the provider of the cluster.
        after: releases that must be deployed before it, and removed after it.

    Raises:
        UserError: the chart was not fetched.
    """

    def __init__(
        self,
        release: Release,
        site: Site,
        values: Values,
        opts: pulumi.ResourceOptions,
        after: Sequence[ChartRelease] = (),
    ) -> None:
        super().__init__(f"strata:platform:{release.kind}", release.name, None, opts)
        helm = kubernetes.helm.v3.Release(
            release.name,
            kubernetes.helm.v3.ReleaseArgs(
                name=release.name,
                chart=_chart(release, site),
                namespace=release.namespace,
                create_namespace=True,
                values=values,
                # only where there is one: the plugin drops null otherwise, and the flag changes the release's inputs
                allow_null_values=True if has_null(values) else None,
                atomic=True,
                timeout=TIMEOUT,
            ),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, depends_on=list(after)),
        )
        self.status = helm.status
        self.register_outputs({"status": self.status})


def _chart(release: Release, site: Site) -> str:
    """Directory of the chart; relative to pulumi/platform if it belongs to the repository."""
    path = release.chart_directory(site)
    if path is None:
        raise UserError(f"chart {release.chart} was not fetched", fix=f"run `strata up {site.name}`, which fetches it")
    return f"{FROM_PROGRAM}/{path.relative_to(REPOSITORY)}" if path.is_relative_to(REPOSITORY) else str(path)
