"""Signing keys: read from PEM, named by their RFC 7638 thumbprint, published as JWKs."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

MINIMUM_RSA_BITS = 2048


class UnusableKey(ValueError):
    """A key file cannot be used; the text names it and says why."""


@dataclass(frozen=True)
class PublishedKey:
    """What everybody may know of a key: its name, its algorithm, its JWK."""

    key_id: str
    algorithm: str
    jwk: dict[str, Any]


@dataclass(frozen=True)
class SigningKey:
    """The private key, and what is published of it."""

    private_key: RSAPrivateKey | EllipticCurvePrivateKey
    published: PublishedKey


def thumbprint(jwk: dict[str, Any]) -> str:
    """RFC 7638: SHA-256 over the required members in lexical order."""
    members = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}[jwk["kty"]]
    text = json.dumps({name: jwk[name] for name in members}, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def read_signing_key(file: Path) -> SigningKey:
    """The private key of a PEM file.

    Raises:
        UnusableKey: no PEM, encrypted, too short, or of another kind.
    """
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise UnusableKey(f"{file}: is no unencrypted PEM private key") from error
    published = _published(file, key.public_key())
    assert isinstance(key, (RSAPrivateKey, EllipticCurvePrivateKey))  # its public part is of one of these kinds
    return SigningKey(key, published)


def read_published_key(file: Path) -> PublishedKey:
    """The public key of a PEM file.

    Raises:
        UnusableKey: no public key, too short, or of another kind.
    """
    try:
        key = load_pem_public_key(file.read_bytes())
    except ValueError as error:
        raise UnusableKey(f"{file}: is no PEM public key; `openssl pkey -pubout` makes one of a private key") from error
    return _published(file, key)


def _published(file: Path, key: PublicKeyTypes) -> PublishedKey:
    if isinstance(key, RSAPublicKey):
        if key.key_size < MINIMUM_RSA_BITS:
            raise UnusableKey(f"{file}: RSA key of {key.key_size} bits; at least {MINIMUM_RSA_BITS} are needed")
        algorithm, jwk = "RS256", RSAAlgorithm.to_jwk(key, as_dict=True)
    elif isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        algorithm, jwk = "ES256", ECAlgorithm.to_jwk(key, as_dict=True)
    else:
        raise UnusableKey(f"{file}: is neither RSA nor EC P-256")
    jwk = {name: value for name, value in jwk.items() if name != "key_ops"}
    key_id = thumbprint(jwk)
    return PublishedKey(key_id, algorithm, {**jwk, "kid": key_id, "use": "sig", "alg": algorithm})


@dataclass(frozen=True)
class KeySet:
    """The key that signs, and the older ones that are still published."""

    current: SigningKey
    previous: tuple[PublishedKey, ...] = ()

    @classmethod
    def read(cls, file: Path, previous_directory: Path | None) -> KeySet:
        """Reads all keys.

        Raises:
            UnusableKey: one of them cannot be used.
        """
        current = read_signing_key(file)
        older = sorted(previous_directory.glob("*.pem")) if previous_directory else []
        keys = (read_published_key(path) for path in older)
        return cls(current, tuple(key for key in keys if key.key_id != current.published.key_id))

    @property
    def document(self) -> dict[str, Any]:
        """The JWK Set of RFC 7517."""
        return {"keys": [key.jwk for key in (self.current.published, *self.previous)]}
