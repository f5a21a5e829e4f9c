"""Which releases a site has, and the component that each of them is."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from strata.models import Site
from strata.models.platform import Tenant
from strata.platform.values import Values, as_inputs
from strata.site.paths import REPOSITORY
from strata.toolchain import charts, load_versions

SYSTEM_NAMESPACE = "strata-system"
"""Services of ours; tenants have namespaces of their own, which their release makes."""
KUBERNETES_NAMESPACE = "kube-system"
INGRESS_NAMESPACE = "traefik"
INGRESS_CLASS = "traefik"
CHARTS = "../../helm"
"""Seen from pulumi/platform: an absolute path would make the state depend on the checkout."""
TIMEOUT = 300
"""Seconds in which a release's pods must be ready."""


@dataclass(frozen=True)
class ReleaseArgs:
    """One release.

    Args:
        chart: directory in helm/, or a chart of versions.yaml.
        namespace: where it stands; made where there is none.
        values: of the chart.
    """

    chart: str
    namespace: str
    values: Values


class ChartRelease(pulumi.ComponentResource):
    """Base of the platform's components: a release of a chart of ours, all or nothing.

    Args:
        kind: name of the component's type, `strata:platform:<kind>`.
        name: of the release.
        args: what is released.
        opts: with the provider of the cluster.
    """

    def __init__(self, kind: str, name: str, args: ReleaseArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"strata:platform:{kind}", name, None, opts)
        release = kubernetes.helm.v3.Release(
            name,
            kubernetes.helm.v3.ReleaseArgs(
                name=name,
                chart=_chart(args.chart),
                namespace=args.namespace,
                create_namespace=True,
                values=as_inputs(args.values),
                atomic=True,
                timeout=TIMEOUT,
            ),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.status = release.status
        self.register_outputs({"status": self.status})


def _chart(name: str) -> str:
    """Directory of a chart; relative to pulumi/platform if it belongs to the repository."""
    if name not in load_versions().charts:
        return f"{CHARTS}/{name}"
    path = charts.chart_directory(name)
    return f"../../{path.relative_to(REPOSITORY)}" if path.is_relative_to(REPOSITORY) else str(path)


def tenant_release(tenant: Tenant) -> str:
    """Name of a tenant's release."""
    return f"tenant-{tenant.name}"


def release_names(site: Site) -> list[str]:
    """Names of all releases of a site with a cluster, in the program's order."""
    services = site.platform.services
    names = ["cluster-base", "traefik", *(tenant_release(t) for t in site.platform.tenants)]
    names += ["token-issuer"] if services.token_issuer else []
    names += ["ml-hub"] if services.ml_hub else []
    return names
