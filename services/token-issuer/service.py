"""The issuer of tokens for sites without an identity provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from strata.catalogue.issuer import Endpoints, Issuer
from strata.catalogue.needs import Client, Hostname, Need, Priority, Secret
from strata.catalogue.needs.audience import audiences
from strata.catalogue.service import SYSTEM_NAMESPACE, Service, ServiceContext, Values
from strata.catalogue.site import needed
from strata.models.base import Model
from strata.models.types import DnsLabel

if TYPE_CHECKING:
    from strata.models import Site

CLIENT = "verify"
"""Client whose tokens `strata verify` and operators use."""
CLIENT_SECRET = "token_issuer_verify_secret"  # noqa: S105 the name of a secret, not one
PRIORITY = Priority("platform")
PORT = 8080
"""Of the Service in the cluster."""


class TokenIssuer(Model):
    """Issuer of the JSON Web Tokens that services accept, for sites without an identity provider."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Answers at https://<hostname>.<domain>.")] = "login"


def new_signing_key() -> str:
    """PEM of a private key."""
    # imported late: it takes longer than validating a site
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


SIGNING_KEY = Secret("token_issuer_signing_key", key="signing-key.pem", make=new_signing_key, keep_previous=True)
"""The public part of the key before is published on, so that its tokens hold to their end."""


def public_part(key: str) -> str:
    """PEM of the public key that belongs to a private one."""
    from cryptography.hazmat.primitives import serialization

    public = serialization.load_pem_private_key(key.encode(), password=None).public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def _hostname(settings: TokenIssuer) -> Hostname:
    return Hostname(settings.hostname, "/healthz")


def needs(settings: TokenIssuer) -> tuple[Need[Any], ...]:
    """A name, the key that signs, and priority."""
    return (_hostname(settings), SIGNING_KEY, PRIORITY)


def secret_data(context: ServiceContext[TokenIssuer]) -> Mapping[str, str]:
    """The clients with their secrets: those that services need, and one for operators and checks."""
    clients = {
        need.name: {"secret": context.secrets.get(need.secret), "audiences": list(need.audiences)}
        for _, need in needed(context.site, Client)
    }
    clients[CLIENT] = {
        "secret": context.secrets.get(CLIENT_SECRET),
        "audiences": list(audiences(context.site)) or [CLIENT],
    }
    return {"clients.json": json.dumps(clients, sort_keys=True)}


def issuer(settings: TokenIssuer, site: Site) -> Issuer:
    """Where users reach it, and where pods read its keys."""
    url = f"https://{settings.hostname}.{site.domain}"
    inside = f"http://token-issuer.{SYSTEM_NAMESPACE}.svc:{PORT}"
    public, internal = (
        Endpoints(f"{at}/authorize", f"{at}/token", f"{at}/userinfo", f"{at}/jwks", f"{at}/logout")
        for at in (url, inside)
    )
    return Issuer(url, public, internal, CLIENT, CLIENT_SECRET, "", {"app.kubernetes.io/name": "token-issuer"})


def values(context: ServiceContext[TokenIssuer]) -> Values:
    """Values of helm/token-issuer."""
    previous = context.secrets.peek(SIGNING_KEY.previous)
    return {
        "image": context.image,
        "issuer": issuer(context.settings, context.site).url,
        "existingSecret": context.service.secret_name,
        **({"previousKeys": {"previous": public_part(previous)}} if previous and "PRIVATE KEY" in previous else {}),
        "service": {"port": PORT},
        "priorityClassName": context.provide(PRIORITY),
        "ingress": context.provide(_hostname(context.settings)),
    }


SERVICE = Service(
    folder=Path(__file__).parent,
    settings=TokenIssuer,
    needs=needs,
    values=values,
    secret_data=secret_data,
    issuer=issuer,
)
