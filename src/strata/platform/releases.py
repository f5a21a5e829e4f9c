"""The releases of a site: the one table that the program, plan, status, drift and report read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.needs.namespace import Namespace, TenantNamespaces
from strata.catalogue.needs.upstream_chart import UpstreamChart
from strata.catalogue.published import published
from strata.catalogue.service import SYSTEM_NAMESPACE, Secrets, Service, ServiceContext, Values, fingerprint
from strata.catalogue.site_needs import namespaces
from strata.catalogue.site_services import installed, needed
from strata.catalogue.site_volumes import service_volumes, volumes
from strata.models.base import Model
from strata.models.platform import Tenant
from strata.models.site import Site
from strata.platform import cluster_base, ingress, nvidia_device_plugin, shared_volumes, storage_class, tenant
from strata.platform.operator_values import check_operator_values, merged, operator_values
from strata.progress import Progress
from strata.provider import provider_of
from strata.site.host_list import address_of, hosts
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import REPOSITORY
from strata.site.secrets import Certificate
from strata.toolchain import charts, load_versions

KUBERNETES_NAMESPACE = "kube-system"
FINGERPRINT_ANNOTATION = "strata.dev/secrets"
"""Of pods: changes with the service's secrets, so that a changed one starts new pods."""


class SiteSecrets(Secrets, Protocol):
    """What releases request from the site's secret store."""

    def certificate(self, name: str, dns_names: Sequence[str] = ()) -> Certificate:
        """The certificate of that name; issued again when it is about to end."""


@dataclass(frozen=True)
class PlatformState:
    """What the values of releases are made from.

    Args:
        site: the site.
        site_file: files that it names are relative to it.
        outputs: of the cloud layer.
        images: in the site's registry.
        secrets: of the site.
    """

    site: Site
    site_file: Path
    outputs: CloudOutputs | None
    images: ImageOutputs
    secrets: SiteSecrets


@dataclass(frozen=True)
class Release:
    """One Helm release.

    Args:
        name: of the release.
        kind: of the Pulumi component, `strata:platform:<kind>`.
        chart: folder in helm/, or a chart of versions.yaml.
        namespace: that it is stored in.
        own_values: of the chart, without the operator's.
        address: URL at the site's load balancer.
        after: releases that must be deployed before it; they come first in the table.
        makes: namespace that is an object of it.
        substitute: whether lab/charts/<chart> takes the place of another project's chart that is available.
    """

    name: str
    kind: str
    chart: str
    namespace: str
    own_values: Callable[[PlatformState], Values]
    address: str | None = None
    after: tuple[str, ...] = ()
    makes: str | None = None
    substitute: bool = False

    @property
    def key(self) -> str:
        """Namespace and name, which no other release of the cluster has."""
        return f"{self.namespace}/{self.name}"

    @property
    def chart_source(self) -> str:
        """Where the chart is: below the repository, or its name in versions.yaml."""
        return self.chart if self.chart in load_versions().charts else f"helm/{self.chart}"

    def chart_directory(self, site: Site) -> Path | None:
        """Directory of the chart that the site installs; None where it has not been fetched yet."""
        if self.chart not in load_versions().charts:
            return REPOSITORY / "helm" / self.chart
        if self.substitute:
            return charts.SUBSTITUTES / self.chart
        return charts.chart_directory(self.chart, substitutes=provider_of(site).allows_substitutes)

    def values(self, state: PlatformState) -> Values:
        """Values of the chart: Strata's own, with the operator's on top.

        Raises:
            UserError: something that they need is missing.
        """
        return dict(merged(self.own_values(state), operator_values(state.site_file, self.name)))


def releases(site: Site) -> tuple[Release, ...]:
    """All releases of a site; none for one without a cluster."""
    cluster = site.cluster
    if cluster is None:
        return ()
    base = Release(
        "cluster-base",
        "ClusterBase",
        "cluster-base",
        KUBERNETES_NAMESPACE,
        lambda state: cluster_base.values(site, cluster, state.outputs, state.images.images),
    )
    controller = Release(
        ingress.INGRESS_RELEASE,
        "IngressController",
        "traefik",
        INGRESS_NAMESPACE,
        lambda state: ingress.values(
            site, state.outputs, state.images.images, ingress.acme_authority(site, state.site_file)
        ),
    )
    plugin = Release(
        nvidia_device_plugin.CHART,
        "NvidiaDevicePlugin",
        nvidia_device_plugin.CHART,
        KUBERNETES_NAMESPACE,
        lambda _: nvidia_device_plugin.values(site, cluster),
        after=(base.name,),
    )
    claims = _storage_class_release(site)
    gpus = [plugin] if nvidia_device_plugin.nvidia_kinds(site) else []
    own = [_namespace_release(namespace) for namespace in namespaces(site)]
    tenants = [_tenant_release(site, t) for t in site.platform.tenants]
    # of a service with several names, the first, which is the one for users' browsers
    addresses = {entry.key: entry.url for entry in reversed(published(site))}
    upstream = [_upstream_release(service, need) for service, need in needed(site, UpstreamChart)]
    services = [_service_release(service, site, addresses.get(service.key)) for service in installed(site)]
    storage = _volumes_release(site, [*own, *tenants])
    per_tenant = [
        _per_tenant_release(service, need, site, t)
        for service, need in needed(site, TenantNamespaces)
        for t in site.platform.tenants
    ]
    return (base, controller, *gpus, *claims, *own, *tenants, *storage, *upstream, *services, *per_tenant)


def _storage_class_release(site: Site) -> tuple[Release, ...]:
    settings, name = site.platform.storage_class, storage_class.CHART
    if settings is None:
        return ()

    def values(state: PlatformState) -> Values:
        return storage_class.values(site, settings, state.images.images)

    substitute = storage_class.uses_substitute(site)
    return (Release(name, "StorageClass", name, KUBERNETES_NAMESPACE, values, substitute=substitute),)


def check_values(site: Site, site_file: Path) -> None:
    """Refuses values files beside a site file that no release of the site takes.

    Raises:
        UserError: with every error in them.
    """
    check_operator_values(
        site_file, {release.name: (release.chart, release.chart_directory(site)) for release in releases(site)}
    )


def fetch_charts(site: Site, progress: Progress) -> list[str]:
    """Fetches charts of other projects that the site's releases use and the cache does not have; returns their names.

    Raises:
        UserError: charts are not available, and the site may not have their substitutes.
    """
    names = {release.chart for release in releases(site) if not release.substitute}
    return charts.ensure_charts(progress, names, substitutes=provider_of(site).allows_substitutes)


def _namespace_release(need: Namespace) -> Release:
    """Stored outside of the namespace that it makes, as a tenant's."""
    values = {"namespace": need.name, "podSecurity": need.pod_security}
    values |= {"reader": need.reader} if need.reader else {}
    return Release(need.release, "Namespace", "namespace", SYSTEM_NAMESPACE, lambda _: values, makes=need.name)


def _tenant_release(site: Site, group: Tenant) -> Release:
    def values(_: PlatformState) -> Values:
        return tenant.values(site, group)

    return Release(_tenant_name(group), "Tenant", "tenant", SYSTEM_NAMESPACE, values, makes=group.name)


def _tenant_name(group: Tenant) -> str:
    return f"tenant-{group.name}"


def _volumes_release(site: Site, namespaces: Sequence[Release]) -> tuple[Release, ...]:
    """After the releases that make the claims' namespaces; none for a site without volumes."""
    if not volumes(site):
        return ()
    name, after = shared_volumes.CHART, tuple(release.name for release in namespaces)
    return (Release(name, _kind(name), name, SYSTEM_NAMESPACE, lambda _: shared_volumes.values(site), after=after),)


def _upstream_release(service: Service[Model], need: UpstreamChart) -> Release:
    def values(state: PlatformState) -> Values:
        return need.values(service_context(service, state))

    return Release(need.chart, _kind(need.chart), need.chart, KUBERNETES_NAMESPACE, values)


def _upstream(service: Service[Model], site: Site) -> tuple[str, ...]:
    """Releases of other projects' charts, which define what the service's own contain."""
    return tuple(need.chart for owner, need in needed(site, UpstreamChart) if owner.name == service.name)


def _service_release(service: Service[Model], site: Site, address: str | None) -> Release:
    def values(state: PlatformState) -> Values:
        context = service_context(service, state)
        return _with_fingerprint(service.values(context), state, context.secret_data(), service.pod_annotations)

    name = service.name
    after = tuple(need.release for owner, need in needed(site, Namespace) if owner.name == name)
    after = (*after, *_upstream(service, site))
    if any(owner.name == name for owner, _ in service_volumes(site)):
        after = (*after, shared_volumes.CHART)
    return Release(name, _kind(name), name, service.namespace_of(site), values, address, after)


def _per_tenant_release(service: Service[Model], need: TenantNamespaces, site: Site, group: Tenant) -> Release:
    def values(state: PlatformState) -> Values:
        context = service_context(service, state)
        data = need.tenant_secret(context, group) if need.tenant_secret else {}
        return _with_fingerprint({**need.values(context, group), "namespace": group.name}, state, data)

    name, after = need.release(group.name), (_tenant_name(group), *_upstream(service, site))
    return Release(name, _kind(need.chart), need.chart, SYSTEM_NAMESPACE, values, after=after)


def _kind(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _with_fingerprint(
    given: Values, state: PlatformState, data: Mapping[str, str], keys: Iterable[str] = ("podAnnotations",)
) -> Values:
    """Values whose pods change with secret data; keys are dotted paths of annotations of pods."""
    if data:
        digest = fingerprint(state.secrets, data)
        for key in keys:
            annotations = given
            for step in key.split("."):
                annotations = annotations.setdefault(step, {})
            annotations[FINGERPRINT_ANNOTATION] = digest
    return given


def service_context(service: Service[Model], state: PlatformState) -> ServiceContext[Model]:
    """What a service's functions are given.

    Raises:
        LookupError: the site does not have the service.
    """
    settings = service.of(state.site)
    if settings is None:
        raise LookupError(f"site {state.site.name} has no platform.services.{service.key}")
    listed = hosts(state.site, state.outputs)
    there = dict.fromkeys(role for host in listed for role in host.roles)
    addresses = {
        role: address for role in there if (address := address_of(role, state.site, state.outputs)) is not None
    }
    names = {host.name: host.address for host in listed}
    images = state.images.images
    return ServiceContext(service, settings, state.site, state.site_file, images, state.secrets, addresses, names)
