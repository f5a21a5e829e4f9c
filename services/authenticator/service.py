"""The authenticator: login, sites and tenants of the API, for Tapis' clients, and personal access tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strata.catalogue.issuer import issuer_url
from strata.catalogue.needs import ApiPath, Audience, Client, Database, Hostname, Metrics, Need, Priority, Secret
from strata.catalogue.published import front_page_url
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site_services import needed
from strata.models.site import Site
from strata_services.authenticator.settings import Authenticator

API = ApiPath(
    health_path="/v3/sites",
    title="Programs (API)",
    summary="Log in from a program with your name and password, by Tapis' client tapipy.",
    start_path="/v3/oauth2/openapi.json",
    paths=("/v3/oauth2", "/v3/sites", "/v3/tenants"),
)
AUDIENCE = Audience("authenticator", path="/v3/oauth2/userinfo")
PASSWORD_CLIENT = Client("authenticator", passwords=True, all_audiences=True)
SESSION_KEY = Secret("authenticator_session_key", key="session-key")
DATABASE = Database("authenticator")
METRICS = Metrics(9464)
PRIORITY = Priority("platform")


def _pages(settings: Authenticator) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Access tokens",
        summary="Tokens for scripts and CI, in place of your password: create, list, revoke.",
    )


def _login_client(settings: Authenticator) -> Client:
    """Logs people in at the pages, and gets what their personal access tokens seal."""
    return Client(
        "authenticator-login",
        hostname=_pages(settings),
        redirect_paths=("/.login/callback",),
        logout_paths=("/.logout",),
        all_audiences=True,
        offline=True,
    )


def needs(settings: Authenticator) -> tuple[Need[Any], ...]:
    """A name for its pages, paths of the API, the site's tokens, clients that pass on passwords and log people in, a
    database, a key for sessions, metrics, priority."""
    clients = (PASSWORD_CLIENT, _login_client(settings))
    return (_pages(settings), API, AUDIENCE, *clients, DATABASE, SESSION_KEY, METRICS, PRIORITY)


def account_url(site: Site) -> str:
    """Page of the issuer where people log in by browser, and change their passwords."""
    own = (need for service, need in needed(site, Hostname) if service.issuer is not None)
    return next((f"https://{need.host(site)}{need.start_path}" for need in own), issuer_url(site) or "")


def values(context: ServiceContext[Authenticator]) -> Values:
    """Values of helm/authenticator.

    Raises:
        UserError: no PostgreSQL server is deployed, the external issuer's CA cannot be read, or its URLs are neither
            set nor to be discovered.
    """
    site, database = context.site, context.provide(DATABASE)
    access, client = context.provide(AUDIENCE), context.provide(PASSWORD_CLIENT)
    login = context.provide(_login_client(context.settings))
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
    if client.internal.revoke:
        issuer["revokeUrl"] = client.internal.revoke
    return {
        "image": context.image,
        "replicas": context.settings.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "site": site.name,
        "services": sorted({service.name for service, _ in needed(site, ApiPath)}),
        "issuer": issuer,
        "database": {**database.values, "existingSecret": database.password.value},
        "passwordClient": {"id": client.id, "existingSecret": client.secret.value},
        "login": {
            "client": {"id": login.id, "existingSecret": login.secret.value},
            "sessionKey": {"existingSecret": context.provide(SESSION_KEY).value},
        },
        "personalAccessTokenDays": context.settings.personal_access_token_days,
        "ingress": ingress,
        "web": {
            **context.provide(_pages(context.settings)),
            "logoutUrl": login.public.logout,
            "frontPageUrl": front_page_url(site),
        },
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(access.pods),
            "egressPorts": sorted({*access.ports, *client.ports}),
        },
    }


SERVICE = Service(folder=Path(__file__).parent, needs=needs, values=values)
