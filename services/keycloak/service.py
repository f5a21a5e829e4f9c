"""Keycloak: the site's issuer of tokens, with its users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata.catalogue import cluster_login
from strata.catalogue.issuer import Endpoints, Issuer, UserProgram
from strata.catalogue.needs import Audience, Client, Database, Hostname, Metrics, Need, Priority, Secret
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import SYSTEM_NAMESPACE, Service, ServiceContext, Values, fingerprint
from strata.catalogue.site_needs import audiences, token_audiences
from strata.catalogue.site_services import needed
from strata.models.platform import Person
from strata.models.site import Site
from strata_services.keycloak.settings import Keycloak

CLIENT = "verify"
"""Client whose tokens `strata verify` and operators use."""
CLIENT_SECRET = "keycloak_verify_secret"  # noqa: S105 the name of a secret, not one
AUDIENCE_SCOPE = "audience:{audience}"
"""As src/keycloak_realm makes them."""
PORT = 8080
"""Of the Service in the cluster."""
SERVER = {"app.kubernetes.io/name": "keycloak", "app.kubernetes.io/component": "server"}
DATABASE = Database("keycloak")
METRICS = Metrics(9000)
PRIORITY = Priority("platform")
ADMIN_SECRET = Secret("keycloak_admin_client_secret", key="admin-client-secret", keep_previous=True)
"""Of the client that reconciles the realm; it logs in with the previous secret to set a new one."""


def new_signing_key() -> str:
    """PEM of a private key."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # few commands make keys
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415  # few commands make keys

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


SIGNING_KEY = Secret("keycloak_signing_key", key="signing-key.pem", make=new_signing_key, keep_previous=True)
"""The key before is published on, so that its tokens hold to their end."""


def _hostname(settings: Keycloak) -> Hostname:
    return Hostname(
        settings.hostname,
        f"/realms/{settings.realm}",
        title="Your account",
        summary="Password, profile and sessions of the login that all services share.",
        start_path=f"/realms/{settings.realm}/account",
    )


def needs(settings: Keycloak) -> tuple[Need[Any], ...]:
    """A database, metrics, priority, a name, the key that signs, the administrator's secret."""
    return (DATABASE, METRICS, PRIORITY, _hostname(settings), SIGNING_KEY, ADMIN_SECRET)


def secret_data(context: ServiceContext[Keycloak]) -> Mapping[str, str]:
    """Keycloak's passwords; clients and tenants of the realm; secrets from before a rotation."""
    secrets = context.secrets
    conf = {
        "db-password": secrets.get(DATABASE.secret),
        "bootstrap-admin-client-secret": ADMIN_SECRET.value(context),
    }
    previous = {
        f"previous-{need.key}": value
        for need in (SIGNING_KEY, ADMIN_SECRET)
        if (value := secrets.peek(need.previous)) is not None
    }
    site = {
        "realm": context.settings.realm,
        "title": context.site.name,
        "clients": _clients(context),
        "tenants": [
            {
                "name": tenant.name,
                "members": [_person(person) for person in tenant.members],
                "administrators": [_person(person) for person in tenant.principal_investigators],
            }
            for tenant in context.site.platform.tenants
        ],
    }
    return {
        "keycloak.conf": "".join(f"{key}={value}\n" for key, value in conf.items()),
        "site.json": json.dumps(site, sort_keys=True),
        **previous,
    }


def _clients(context: ServiceContext[Keycloak]) -> list[dict[str, object]]:
    """The clients that services need, one for operators and checks, and kubectl's, which is public."""
    clients: list[dict[str, object]] = [
        {
            "id": need.name,
            "secret": context.secrets.get(need.secret),
            "audiences": token_audiences(context.site, need),
            "redirect_urls": need.redirect_urls(context.site),
            "logout_urls": need.logout_urls(context.site),
            "service_account": need.has_service_account,
            "passwords": need.passwords,
            "offline": need.offline,
        }
        for _, need in needed(context.site, Client)
    ]
    if context.site.cluster is not None:
        urls = cluster_login.REDIRECT_URLS
        kubectl = {"id": cluster_login.CLIENT, "secret": "", "redirect_urls": urls, "device": True}
        # its access tokens are for a service where the user asks for that; the cluster takes its ID tokens only
        clients.append({**kubectl, "optional_audiences": audiences(context.site)})
    verify = {"id": CLIENT, "secret": context.secrets.get(CLIENT_SECRET), "service_account": True}
    return [*clients, {**verify, "optional_audiences": audiences(context.site)}]


def _person(person: Person) -> dict[str, str]:
    return {"name": person.name, "email": person.email or ""}


def issuer(settings: Keycloak, site: Site) -> Issuer:
    """Where users reach it, and where pods do."""
    realm = f"/realms/{settings.realm}"
    url = f"https://{settings.hostname}.{site.domain}{realm}"
    public, internal = (
        Endpoints(
            authorize=f"{at}/auth",
            token=f"{at}/token",
            userinfo=f"{at}/userinfo",
            jwks=f"{at}/certs",
            logout=f"{at}/logout",
            revoke=f"{at}/revoke",
        )
        for at in (
            f"{url}/protocol/openid-connect",
            f"http://keycloak.{SYSTEM_NAMESPACE}.svc:{PORT}{realm}/protocol/openid-connect",
        )
    )
    users = UserProgram(SYSTEM_NAMESPACE, "keycloak-realm", ("/usr/bin/python3", "-m", "keycloak_realm", "users"))
    return Issuer(
        url,
        public,
        internal,
        CLIENT,
        CLIENT_SECRET,
        AUDIENCE_SCOPE,
        SERVER,
        SYSTEM_NAMESPACE,
        users,
        SIGNING_KEY.name,
    )


def values(context: ServiceContext[Keycloak]) -> Values:
    """Values of helm/keycloak.

    Raises:
        UserError: no PostgreSQL server is deployed.
    """
    database, metrics = context.provide(DATABASE), context.provide(METRICS)
    password = {DATABASE.secret: context.secrets.get(DATABASE.secret)}
    return {
        "image": context.image,
        "realm": context.settings.realm,
        "existingSecret": context.service.secret_name,
        "database": database.values,
        # the chart restarts Keycloak for a new password, not for new clients and users
        "podAnnotations": {**metrics.annotations, "checksum/password": fingerprint(context.secrets, password)},
        "priorityClassName": context.provide(PRIORITY),
        "service": {"port": PORT},
        "ingress": context.provide(_hostname(context.settings)),
        "networkPolicy": {"clients": _network_clients(context.site), "metricsClients": list(metrics.clients)},
    }


def _network_clients(site: Site) -> list[Values]:
    """The ingress controller, this chart's own pods, and the namespaces of services that read keys or log users in."""
    name = "kubernetes.io/metadata.name"
    clients: list[Values] = [
        INGRESS_CONTROLLER,
        {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "strata"}}},
    ]
    namespaces = {service.namespace_of(site) for word in (Audience, Client) for service, _ in needed(site, word)}
    others = sorted(namespaces - {SYSTEM_NAMESPACE})
    return [*clients, *({"namespaceSelector": {"matchLabels": {name: other}}} for other in others)]


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    values=values,
    secret_data=secret_data,
    issuer=issuer,
)
