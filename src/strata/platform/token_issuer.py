"""The issuer of tokens for sites without an identity provider."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from strata.models import Site
from strata.models.platform import TokenIssuer as TokenIssuerModel
from strata.platform.releases import INGRESS_CLASS, SYSTEM_NAMESPACE, ChartRelease, ReleaseArgs
from strata.platform.values import Secrets, SecretText, Values, image
from strata.site.outputs import ImageOutputs

SIGNING_KEY = "token_issuer_signing_key"
"""Secret with the PEM of the key that signs tokens."""
PREVIOUS_KEY = "token_issuer_signing_key_previous"
"""Secret with the key before the last rotation; its public part is published, so that its tokens hold to their end."""
CLIENT = "verify"
"""Client whose tokens `strata verify` and operators use."""
CLIENT_SECRET = "token_issuer_verify_secret"  # noqa: S105 the name of a secret, not one
AUDIENCE = "ml-hub"
PORT = 8080
"""Of the Service in the cluster."""


@dataclass(frozen=True)
class TokenIssuerArgs:
    """The release token-issuer.

    Args:
        values: of helm/token-issuer.
    """

    values: Values


class TokenIssuer(ChartRelease):
    """Release of helm/token-issuer."""

    def __init__(self, name: str, args: TokenIssuerArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("TokenIssuer", name, ReleaseArgs("token-issuer", SYSTEM_NAMESPACE, args.values), opts)


def issuer_url(site: Site, issuer: TokenIssuerModel) -> str:
    """The `iss` claim, where users reach it."""
    return f"https://{issuer.hostname}.{site.domain}"


def keys_url() -> str:
    """Where pods read the keys that tokens are checked against."""
    return f"http://token-issuer.{SYSTEM_NAMESPACE}.svc:{PORT}/jwks"


def signing_key(secrets: Secrets) -> str:
    """PEM of the key that signs tokens; made at first use."""
    found = secrets.get(SIGNING_KEY)
    if "PRIVATE KEY" in found:
        return found
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    secrets.put(SIGNING_KEY, key.decode())
    return secrets.get(SIGNING_KEY)


def public_part(key: str) -> str:
    """PEM of the public key that belongs to a private one."""
    public = serialization.load_pem_private_key(key.encode(), password=None).public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def values(site: Site, issuer: TokenIssuerModel, images: ImageOutputs, secrets: Secrets) -> Values:
    """Values of helm/token-issuer."""
    previous = secrets.peek(PREVIOUS_KEY)
    return {
        "image": image(images, "token-issuer"),
        "issuer": issuer_url(site, issuer),
        "signingKey": SecretText(signing_key(secrets)),
        **({"previousKeys": {"previous": public_part(previous)}} if previous and "PRIVATE KEY" in previous else {}),
        "clients": {
            CLIENT: {
                "secret": SecretText(secrets.get(CLIENT_SECRET)),
                "audiences": [AUDIENCE],
                "scopes": ["models:read"],
            }
        },
        "service": {"port": PORT},
        "ingress": {"host": f"{issuer.hostname}.{site.domain}", "className": INGRESS_CLASS},
    }
