"""Tokens that no one may accept, each wrong in one thing only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

if TYPE_CHECKING:
    import requests

    from strata.catalogue.issuer import Issuer

Claims = dict[str, Any]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
LIFE_SECONDS = 300


@dataclass(frozen=True)
class Signer:
    """Signs tokens as an issuer does.

    Args:
        issuer: the `iss` claim.
        key: the private key.
        key_id: the header `kid`.
    """

    issuer: str
    key: PrivateKey
    key_id: str

    def claims(self, audience: str, **others: Any) -> Claims:
        """Claims of a token that holds for 5 min."""
        now = int(time.time())
        return {"iss": self.issuer, "aud": audience, "sub": "strata", "iat": now, "exp": now + LIFE_SECONDS, **others}

    def sign(self, claims: Claims) -> str:
        """A token with these claims."""
        algorithm = "RS256" if isinstance(self.key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, self.key, algorithm, {"kid": self.key_id})


def site_signer(http: requests.Session, own: Issuer, pem: str) -> Signer:
    """Signs as the site's own issuer.

    Args:
        http: finds the site's names.
        own: the issuer.
        pem: its private key.

    Raises:
        LookupError: the issuer does not publish the key.
    """
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, PrivateKey)
    published = jwt.PyJWKSet.from_dict(http.get(own.public.jwks, timeout=30).json())
    for published_key in published.keys:
        if published_key.key == key.public_key() and published_key.key_id is not None:
            return Signer(own.url, key, published_key.key_id)
    raise LookupError(f"{own.public.jwks} does not have the key of the site's secret {own.signing_key}")


def stranger(signer: Signer) -> Signer:
    """Signs with another key of the same kind under the same name."""
    key: PrivateKey = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if isinstance(signer.key, rsa.RSAPrivateKey)
        else ec.generate_private_key(ec.SECP256R1())
    )
    return Signer(signer.issuer, key, signer.key_id)


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _unsigned(signer: Signer, claims: Claims) -> str:
    return jwt.encode(claims, "", "none", {"kid": signer.key_id})


def _by_public_key(signer: Signer, claims: Claims) -> str:
    """HS256 with the published key as the password; by hand, because no library signs so."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = signer.key.public_key().public_bytes(serialization.Encoding.PEM, form)
    head = {"alg": "HS256", "typ": "JWT", "kid": signer.key_id}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    return f"{text}.{_encoded(hmac.digest(public, text.encode(), hashlib.sha256))}"


def _tampered(signer: Signer, claims: Claims) -> str:
    head, _, signature = signer.sign(claims).split(".")
    return f"{head}.{_encoded(json.dumps({**claims, 'sub': 'administrator'}).encode())}.{signature}"


def _cut(signer: Signer, claims: Claims) -> str:
    return signer.sign(claims).rpartition(".")[0] + "."


FORGERIES: Mapping[str, Callable[[Signer, Claims], str]] = {
    "expired": lambda s, c: s.sign({**c, "iat": c["iat"] - 7200, "exp": c["exp"] - 7200}),
    "for another audience": lambda s, c: s.sign({**c, "aud": "another"}),
    "from another issuer": lambda s, c: s.sign({**c, "iss": "https://login.example.org/realms/strata"}),
    "unsigned": _unsigned,
    "signed with another key": lambda s, c: stranger(s).sign(c),
    "signed with the public key": _by_public_key,
    "tampered": _tampered,
    "without its signature": _cut,
}
"""By what is wrong with them."""
