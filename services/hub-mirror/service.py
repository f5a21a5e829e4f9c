"""The declaration of hub-mirror."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strata.catalogue.need import pods_peer
from strata.catalogue.needs import (
    Audience,
    Database,
    Hostname,
    LeftOutOfBackups,
    Metrics,
    Need,
    Priority,
    SharedVolume,
    TenantNamespaces,
)
from strata.catalogue.needs.hugging_face import HubServer
from strata.catalogue.service import SYSTEM_NAMESPACE, Service, ServiceContext, Values
from strata.catalogue.site_needs import hub_clients
from strata.models.files import certificates_file
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath, dotted
from strata.models.platform import Tenant
from strata.models.site import Site
from strata_services.hub_mirror.settings import HubMirror

NAME = Path(__file__).parent.name
KEY: KeyPath = ("platform", "services", NAME.replace("-", "_"))
CA_KEY: KeyPath = (*KEY, "upstream", "ca_file")
INSIDE_PORT = 8081
"""For pods, which no Ingress publishes."""
SITE_CLASS = "nfs"
"""The site's own storage class."""
PODS = {"app.kubernetes.io/name": NAME}


DATABASE = Database("hub_mirror")
AUDIENCE = Audience("hub-mirror", path="/api/whoami-v2")
METRICS = Metrics(9464)
CACHE = LeftOutOfBackups(NAME, ("blobs", "partial"))
USER_ID = 65532
"""Of the image."""
PRIORITY = Priority("platform")


def published(settings: HubMirror) -> SharedVolume:
    """The files of tenants' repositories: an export of its own, which `strata backup` includes."""
    size = f"{settings.storage.mebibytes}Mi"
    return SharedVolume(f"{NAME}-published", owner=USER_ID, group=USER_ID, mode="0750", size=size)


def _hostname(settings: HubMirror) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Hugging Face Hub",
        summary="The site's cache of models and datasets, and those of your project, for huggingface_hub.",
        command="HF_ENDPOINT={url} hf download MODEL",
    )


def server(site: Site) -> HubServer:
    """The mirror, for pods of other services and of tenants."""
    settings = SERVICE.of(site)
    assert settings is not None, "only services of the site are asked"
    url = f"http://{NAME}-inside.{SYSTEM_NAMESPACE}.svc:{INSIDE_PORT}"
    return HubServer(url, f"https://{settings.hostname}.{site.domain}", pods_peer(SYSTEM_NAMESPACE, PODS), INSIDE_PORT)


def tenant_values(context: ServiceContext[Any], _: Tenant) -> Values:
    """Values of helm/hub-mirror-tenant."""
    mirror = server(context.site)
    return {"environment": mirror.environment, "server": {"port": mirror.port, "pods": dict(mirror.pods)}}


TENANTS = TenantNamespaces("hub-mirror-tenant", tenant_values)


def needs(settings: HubMirror) -> tuple[Need[Any], ...]:
    """Database, volume, the site's tokens, a name, metrics, priority, and the way to it from tenants' namespaces."""
    return (DATABASE, published(settings), CACHE, AUDIENCE, METRICS, PRIORITY, _hostname(settings), TENANTS)


def check(settings: HubMirror, site: Site, directory: Path) -> Iterator[Finding]:
    """The volume has a class and room for the cache; the CA of the upstream is one."""
    if settings.storage_class is None and site.platform.storage_class is None:
        why = "needs a storage class for its cache, and the site has none of its own"
        storage_class: KeyPath = ("platform", "storage_class")
        yield Finding(
            (*KEY, "storage_class"), why, "a class of the cluster, or set platform.storage_class", (storage_class,)
        )
    if settings.cache_size.bytes > settings.storage.bytes:
        yield Finding((*KEY, "cache_size"), f"is more than the volume has ({settings.storage})", "less than storage")
    yield from duplicates((host, (*KEY, "upstream", "hosts", i)) for i, host in enumerate(settings.upstream.hosts))
    if settings.upstream.ca_file is not None:
        yield from certificates_file(CA_KEY, directory / settings.upstream.ca_file)


def values(context: ServiceContext[HubMirror]) -> Values:
    """Values of helm/hub-mirror.

    Raises:
        UserError: no PostgreSQL server is deployed, or a CA cannot be read.
    """
    settings, upstream = context.settings, context.settings.upstream
    database = context.provide(DATABASE)
    issuer = context.provide(AUDIENCE)
    metrics = context.provide(METRICS)
    tenants = [tenant.name for tenant in context.site.platform.tenants]
    namespaces = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in tenants]
    ca_file = upstream.ca_file
    return {
        "image": context.image,
        "priorityClassName": context.provide(PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "issuer": {
            "url": issuer.url,
            "audience": issuer.audience,
            "jwksUrl": issuer.jwks_url or "",
            "ca": issuer.ca or "",
        },
        "upstream": {
            "url": upstream.url,
            "hosts": list(upstream.hosts),
            "ca": context.read(dotted(CA_KEY), Path(ca_file)) if ca_file is not None else "",
            "proxy": upstream.proxy or "",
            "offline": upstream.offline,
        },
        "storage": {
            "class": settings.storage_class or SITE_CLASS,
            "size": f"{settings.storage.mebibytes}Mi",
            "publishedClaim": context.provide(published(settings)),
            # texts: Helm would write large numbers as 1e+11
            "cacheBytes": str(settings.cache_size.bytes),
            "tenantBytes": str(settings.repository_size.bytes),
        },
        "tenants": tenants,
        "ingress": context.provide(_hostname(settings)),
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "insideClients": [*namespaces, *hub_clients(context.site)],
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": sorted({*issuer.ports, *upstream.ports}),
        },
    }


SERVICE = Service(folder=Path(__file__).parent, needs=needs, values=values, check=check, hub_server=server)
