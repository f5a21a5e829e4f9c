"""The Pods API: containers of users, each with a name and TLS, in the form of Tapis' Pods API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strata.catalogue.needs import (
    ApiPath,
    Audience,
    Client,
    Database,
    Hostname,
    HuggingFace,
    Metrics,
    MetricsQuery,
    Need,
    Priority,
    Secret,
    SharedVolume,
    TenantNamespaces,
    WildcardHostname,
)
from strata.catalogue.needs.accelerators import toleration
from strata.catalogue.needs.hostname import CERTIFICATE_RESOLVER, INGRESS_CLASS, INGRESS_CONTROLLER
from strata.catalogue.published import front_page_url
from strata.catalogue.service import SYSTEM_NAMESPACE, Service, ServiceContext, Values
from strata.models.finding import Finding, duplicates
from strata.models.gpu_nodes import gpu_nodes, largest_request, node_labels
from strata.models.key_path import KeyPath
from strata.models.platform import Tenant
from strata.models.site import Site
from strata_services.tapis_pods.settings import Pods, PodTemplate

NAME = Path(__file__).parent.name
KEY: KeyPath = ("platform", "services", NAME.replace("-", "_"))
TENANTS_KEY: KeyPath = ("platform", "tenants")
API = ApiPath(
    health_path="/v3/pods/openapi.json",
    title="Containers (API)",
    summary="Your own containers, each with a name and HTTPS, by Tapis' client tapipy.",
    start_path="/v3/pods/openapi.json",
    paths=("/v3/pods",),
)
AUDIENCE = Audience("pods", path="/v3/pods")
SESSION_KEY = Secret("pods_session_key", key="session-key")
DATABASE = Database("pods")
METRICS = Metrics(9464)
MEASURES = MetricsQuery()
PRIORITY = Priority("platform")
MODELS = HuggingFace()
"""Pods load models and datasets by it."""
USER_PRIORITY = Priority("interactive")
USER_ID = 65532
"""Of the service's containers and of volumes; users' pods get it as a group."""
VOLUMES = SharedVolume("pods", owner=USER_ID, group=USER_ID, mode="0750", tenants=True, removal_folder=".removed")


def tenant_values(_: ServiceContext[Pods], __: Tenant) -> Values:
    """Values of helm/pods-tenant."""
    accounts = {"namespace": SYSTEM_NAMESPACE, "api": NAME, "reconciler": f"{NAME}-reconciler"}
    return {"accounts": accounts, "clients": [INGRESS_CONTROLLER]}


TENANTS = TenantNamespaces("pods-tenant", tenant_values)


def _names(settings: Pods) -> WildcardHostname:
    return WildcardHostname(settings.hostname)


def _pages(settings: Pods) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Containers",
        summary="Your own containers, each with a name and HTTPS: create one from a template, open, stop and share it.",
    )


def _client(settings: Pods) -> Client:
    """Logs people in who use the pages, or open a pod with a login."""
    return Client(
        "pods-login",
        hostname=_pages(settings),
        redirect_paths=("/.login/callback",),
        logout_paths=("/.logout",),
    )


def needs(settings: Pods) -> tuple[Need[Any], ...]:
    """Its pages, its path of the API, names of pods, database, tokens and logins, tenants' namespaces, volumes,
    metrics, those of pods, priorities."""
    names = (_pages(settings), API, _names(settings))
    own = (*names, DATABASE, AUDIENCE, _client(settings), SESSION_KEY, TENANTS, VOLUMES)
    return (*own, METRICS, MEASURES, MODELS, PRIORITY, USER_PRIORITY)


def check(settings: Pods, site: Site, _: Path) -> Iterator[Finding]:
    """Pods run in tenants' namespaces, and images are of tenants that the site has."""
    names = [tenant.name for tenant in site.platform.tenants]
    if not names:
        yield Finding(KEY, "needs a tenant, in whose namespace pods run", "add one to platform.tenants", (TENANTS_KEY,))
    indexed = enumerate(settings.images)
    yield from duplicates((image.repository, (*KEY, "images", index)) for index, image in indexed)
    for index, images in enumerate(settings.images):
        at: KeyPath = (*KEY, "images", index, "tenants")
        yield from duplicates((tenant, (*at, number)) for number, tenant in enumerate(images.tenants))
        for number, tenant in enumerate(images.tenants):
            if tenant not in names:
                fix = f"one of {', '.join(names)}" if names else "add it to platform.tenants"
                yield Finding((*at, number), "is not in platform.tenants", fix, (TENANTS_KEY,))

    listed = tuple(images.repository for images in settings.images)
    yield from duplicates(
        (template.name, (*KEY, "templates", index)) for index, template in enumerate(settings.templates)
    )
    for index, template in enumerate(settings.templates):
        if template.name == "tags":
            yield Finding((*KEY, "templates", index, "name"), "tags is reserved", "another name")
        at = (*KEY, "templates", index, "ports")
        yield from duplicates((port.name, (*at, number, "name")) for number, port in enumerate(template.ports))
        yield from duplicates((str(port.port), (*at, number, "port")) for number, port in enumerate(template.ports))
        image = repository(template.image)
        if not any(image.startswith(pattern) if pattern.endswith("/") else image == pattern for pattern in listed):
            fix = f"add {{repository: {image}}} to platform.services.{KEY[-1]}.images"
            yield Finding((*KEY, "templates", index, "image"), "is not in images", fix, ((*KEY, "images"),))


def repository(image: str) -> str:
    """Of an image, without tag and digest."""
    path = image.partition("@")[0]
    name, colon, tag = path.rpartition(":")
    return name if colon and "/" not in tag else path


def _template(context: ServiceContext[Pods], template: PodTemplate) -> Values:
    """As the service reads it."""
    left_out = {"name", "description", "ports"}
    definition = template.model_dump(mode="json", exclude=left_out, exclude_none=True, exclude_unset=True)
    if template.ports:
        definition["networking"] = {
            port.name: {"protocol": port.protocol, "port": port.port} for port in template.ports
        }
    own = (str(image) for image in context.pushed.values() if image.repository == template.image)
    return {
        "name": template.name,
        "description": template.description,
        "pod_definition": {**definition, "image": next(own, template.image)},
    }


def _gpus(site: Site, tenant: Tenant) -> Values | None:
    """The first kind of GPU in the tenant's quota that a node has."""
    for kind, quota in sorted(tenant.quota.accelerators.items()):
        most = min(quota, max((largest_request(site, host, kind) for host in gpu_nodes(site)), default=0))
        if site.accelerators[kind].category == "gpu" and most > 0 and site.cluster is not None:
            return {
                "resource": site.accelerators[kind].resource,
                "maximum": most,
                "node_selector": node_labels(site, {kind: 1}),
                "tolerations": [toleration(taint) for taint in site.cluster.gpu_nodes.taints],
            }
    return None


def _tenant(context: ServiceContext[Pods], tenant: Tenant) -> Values:
    gpus = _gpus(context.site, tenant)
    models = context.provide(MODELS)
    allowed = [
        image.repository for image in context.settings.images if not image.tenants or tenant.name in image.tenants
    ]
    return {
        "name": tenant.name,
        "images": allowed,
        "millicpu": 1000 * tenant.quota.cpu,
        "mebibytes": tenant.quota.memory.mebibytes,
        **({"gpus": gpus} if gpus else {}),
        **({"environment": models.environment} if models else {}),
    }


def values(context: ServiceContext[Pods]) -> Values:
    """Values of helm/tapis-pods.

    Raises:
        UserError: no PostgreSQL server is deployed, the external issuer's CA cannot be read, or its URLs are neither
            set nor to be discovered.
    """
    database, issuer, metrics = context.provide(DATABASE), context.provide(AUDIENCE), context.provide(METRICS)
    client = context.provide(_client(context.settings))
    certificate = context.site.platform.ingress.certificate
    server = context.provide(MEASURES)
    settings = {"url": issuer.url, "audience": issuer.audience, "jwksUrl": issuer.jwks_url, "ca": issuer.ca}
    login = {
        "authorizeUrl": client.public.authorize,
        "tokenUrl": client.internal.token,
        "client": {"id": client.id, "existingSecret": client.secret.value},
        "sessionKey": {"existingSecret": context.provide(SESSION_KEY).value},
    }
    return {
        "image": context.image,
        "replicas": context.settings.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "userPriorityClassName": context.provide(USER_PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "issuer": {key: value for key, value in settings.items() if value is not None},
        "login": login,
        "tenants": [_tenant(context, tenant) for tenant in context.site.platform.tenants],
        "templates": [_template(context, template) for template in context.settings.templates],
        "domain": context.provide(_names(context.settings)),
        "volumes": {"claim": context.provide(VOLUMES), "group": VOLUMES.group},
        "ingress": {
            **context.provide(API),
            "className": INGRESS_CLASS,
            # for http names, it is the entry point's
            "certificateResolver": CERTIFICATE_RESOLVER if certificate.source == "acme" else "",
        },
        "web": {
            "host": context.provide(_pages(context.settings))["host"],
            "logoutUrl": client.public.logout,
            "frontPageUrl": front_page_url(context.site),
        },
        **({"prometheus": {"url": server.url, "port": server.port, "pods": dict(server.pods)}} if server else {}),
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": sorted({*issuer.ports, *client.ports}),
        },
    }


SERVICE = Service(folder=Path(__file__).parent, needs=needs, check=check, values=values)
