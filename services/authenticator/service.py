"""The authenticator: login, sites and tenants of the API, for Tapis' clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from strata.catalogue.issuer import issuer_url
from strata.catalogue.needs import ApiPath, Audience, Client, Hostname, Metrics, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site import needed
from strata.models.base import Model, Unit
from strata.models.types import Count

if TYPE_CHECKING:
    from strata.models import Site

API = ApiPath(
    health_path="/v3/sites",
    title="Programs (API)",
    summary="Log in from a program with your name and password, by Tapis' client tapipy.",
    start_path="/v3/oauth2/openapi.json",
    paths=("/v3/oauth2", "/v3/sites", "/v3/tenants"),
)
AUDIENCE = Audience("authenticator", path="/v3/oauth2/userinfo")
CLIENT = Client("authenticator", passwords=True)
METRICS = Metrics(9464)
PRIORITY = Priority("platform")


class Authenticator(Model):
    """Login, sites and tenants for Tapis' clients, at https://<api_hostname>.<domain>/v3."""

    layer: ClassVar[str] = "platform"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1


def needs(settings: Authenticator) -> tuple[Need[Any], ...]:  # noqa: ARG001  # the same for all settings
    """Paths of the API, the site's tokens, a client that passes on passwords, metrics, priority."""
    return (API, AUDIENCE, CLIENT, METRICS, PRIORITY)


def account_url(site: Site) -> str:
    """Page of the issuer where people log in by browser, and change their passwords."""
    own = (need for service, need in needed(site, Hostname) if service.issuer is not None)
    return next((f"https://{need.host(site)}{need.start_path}" for need in own), issuer_url(site) or "")


def values(context: ServiceContext[Authenticator]) -> Values:
    """Values of helm/authenticator.

    Raises:
        UserError: the external issuer's CA cannot be read, or its URLs are neither set nor to be discovered.
    """
    site = context.site
    access, client = context.provide(AUDIENCE), context.provide(CLIENT)
    metrics, ingress = context.provide(METRICS), context.provide(API)
    issuer: Values = {
        "url": access.url,
        "audience": access.audience,
        "authorizeUrl": client.public.authorize,
        "tokenUrl": client.internal.token,
        "accountUrl": account_url(site),
    }
    if access.jwks_url is not None:
        issuer["jwksUrl"] = access.jwks_url
    if access.ca is not None:
        issuer["ca"] = access.ca
    return {
        "image": context.image,
        "replicas": context.settings.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "site": site.name,
        "services": sorted({service.name for service, _ in needed(site, ApiPath)}),
        "issuer": issuer,
        "client": {"id": client.id, "existingSecret": client.secret.value},
        "ingress": ingress,
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(access.pods),
            "egressPorts": sorted({*access.ports, *client.ports}),
        },
    }


SERVICE = Service(folder=Path(__file__).parent, settings=Authenticator, needs=needs, values=values)
