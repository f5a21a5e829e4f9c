"""An issuer of tokens for tests of services."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from strata_bench.service_processes import http_server


class Key:
    """A signing key of the tests."""

    algorithm = "ES256"

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def jwk(self) -> dict[str, Any]:
        """Its public part."""
        assert isinstance(self.private, ec.EllipticCurvePrivateKey)
        public: dict[str, Any] = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"kty": "EC", "crv": "P-256", "x": public["x"], "y": public["y"], "kid": self.key_id, "use": "sig"}


class RsaKey(Key):
    """One as Keycloak has it."""

    algorithm = "RS256"

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def jwk(self) -> dict[str, Any]:
        """Its public part."""
        assert isinstance(self.private, rsa.RSAPrivateKey)
        public: dict[str, Any] = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"kty": "RSA", "n": public["n"], "e": public["e"], "kid": self.key_id, "use": "sig", "alg": "RS256"}


class Issuer:
    """An issuer whose keys and outages a test decides on.

    Args:
        audience: of its tokens, where none is given.
    """

    def __init__(self, audience: str) -> None:
        self.audience = audience
        self.keys = [Key("first")]
        self.available = True
        self.fetches = 0
        self.url = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], Any]:
        """Discovery document and keys."""
        if not self.available:
            return 503, {}, {}
        if path == "/.well-known/openid-configuration":
            return 200, {}, {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            self.fetches += 1
            return 200, {}, {"keys": [key.jwk for key in self.keys]}
        return 404, {}, {}

    def token(self, key: Key | None = None, headers: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token that holds, but for the claims and headers given; one of None is left out."""
        key = key or self.keys[0]
        now = int(time.time())
        values = {"iss": self.url, "sub": "tester", "aud": self.audience, "iat": now, "exp": now + 300, **claims}
        kept = {name: value for name, value in values.items() if value is not None}
        named = {"kid": key.key_id, **(headers or {})}
        return jwt.encode(kept, key.private, key.algorithm, headers={k: v for k, v in named.items() if v is not None})


@contextlib.contextmanager
def running_issuer(audience: str) -> Iterator[Issuer]:
    """An issuer with one key, that answers on loopback."""
    issuer = Issuer(audience)
    with http_server(issuer.answer) as url:
        issuer.url = url
        yield issuer
