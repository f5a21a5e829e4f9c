"""Who is calling: JWTs checked against the issuer's published keys."""

from __future__ import annotations

import json
import re
import ssl
import urllib.request
from dataclasses import dataclass

import jwt
from jwt.algorithms import AllowedPublicKeys

from accounting.settings import ServeSettings

ALGORITHMS = ("RS256", "ES256")
TIMEOUT_SECONDS = 3.0
LEEWAY_SECONDS = 30
KEYS_SECONDS = 300
"""How long fetched keys are used."""
REFRESH_SECONDS = 10
"""Least time between two fetches; tokens with unknown key ids cannot cause more."""
TENANT_GROUP = re.compile(r"/tenants/([a-z0-9]([a-z0-9-]*[a-z0-9])?)")


class InvalidToken(Exception):
    """The token does not hold; the text says why and goes to the caller."""


class IssuerUnavailable(Exception):
    """The issuer's keys cannot be fetched."""


@dataclass(frozen=True)
class Caller:
    """Who holds the token.

    Args:
        username: as the issuer has it.
        tenants: that the user is a member of.
    """

    username: str
    tenants: tuple[str, ...]


class Verifier:
    """Checks signature, issuer, audience and times of tokens."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._issuer = settings.issuer.rstrip("/")
        self._tls = ssl.create_default_context(cafile=settings.issuer_ca_file)
        self._keys: jwt.PyJWKClient | None = None

    def verify(self, token: str) -> Caller:
        """Who holds the token.

        Raises:
            InvalidToken: it does not hold.
            IssuerUnavailable: it cannot be checked now.
        """
        try:
            header = jwt.get_unverified_header(token)
            # before any key is looked for: `none` and HMAC are not in the list
            if header.get("alg") not in ALGORITHMS:
                raise InvalidToken("the token's signature algorithm is not accepted")
            claims = jwt.decode(
                token,
                self._key(header.get("kid")),
                algorithms=list(ALGORITHMS),
                audience=self._settings.audience,
                issuer=[self._issuer, self._issuer + "/"],
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError) as error:
            raise InvalidToken(f"the token is not valid: {error}") from error
        name, groups = claims.get("preferred_username"), claims.get("groups")
        paths = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
        tenants = dict.fromkeys(match.group(1) for match in map(TENANT_GROUP.fullmatch, paths) if match)
        return Caller(name if isinstance(name, str) and name else str(claims["sub"]), tuple(tenants))

    def _key(self, key_id: object) -> AllowedPublicKeys:
        if not isinstance(key_id, str) or not key_id:
            raise InvalidToken("the token names no key id")
        try:
            if self._keys is None:
                self._keys = jwt.PyJWKClient(
                    self._settings.jwks_url or self._discover(),
                    lifespan=KEYS_SECONDS,
                    cooldown_duration=REFRESH_SECONDS,
                    timeout=TIMEOUT_SECONDS,
                    ssl_context=self._tls,
                )
            key: AllowedPublicKeys = self._keys.get_signing_key(key_id).key
        except (jwt.PyJWKClientConnectionError, OSError, ValueError, KeyError, jwt.PyJWKSetError) as error:
            raise IssuerUnavailable("the issuer of tokens does not answer") from error
        except jwt.PyJWKClientError as error:
            raise InvalidToken("the issuer publishes no key with the token's key id") from error
        return key

    def _discover(self) -> str:
        url = f"{self._issuer}/.well-known/openid-configuration"
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS, context=self._tls) as response:  # noqa: S310  # http(s) by type
            document = json.load(response)
        if document["issuer"].rstrip("/") != self._issuer:
            raise ValueError(f"the discovery document of {self._issuer} names another issuer")
        return str(document["jwks_uri"])
