"""Who is calling: JWTs checked against the issuer's published keys."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jwt
import structlog

from strata_http.settings import IssuerSettings

FETCH_TIMEOUT_SECONDS = 3.0
STALE_SECONDS = 3600.0
"""How long the last keys serve while the issuer does not respond."""

_TENANT_GROUP = re.compile(r"/tenants/([a-z0-9]([a-z0-9-]*[a-z0-9])?)")
_ADMINISTRATORS_GROUP = re.compile(_TENANT_GROUP.pattern + "/admins")

AnswerT = TypeVar("AnswerT")

log = structlog.get_logger(__name__)


class InvalidToken(Exception):
    """The token does not hold; the message gives the reason and goes to the caller."""


class IssuerUnavailable(Exception):
    """The issuer's keys cannot be fetched and none are cached."""


@dataclass(frozen=True)
class Caller:
    """Who holds the token.

    Args:
        subject: the `sub` claim.
        claims: all claims, already checked.
    """

    subject: str
    claims: dict[str, Any]

    @property
    def username(self) -> str:
        """As the issuer has it; of a client without a user, the subject."""
        name = self.claims.get("preferred_username")
        return name if isinstance(name, str) and name else self.subject

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants that the user is a member of, by the claim `groups`; groups of their administrators do not count."""
        return self._groups(_TENANT_GROUP)

    @property
    def administered_tenants(self) -> tuple[str, ...]:
        """Tenants that the user administers, by the claim `groups`, and is a member of."""
        return tuple(tenant for tenant in self._groups(_ADMINISTRATORS_GROUP) if tenant in self.tenants)

    def _groups(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        groups = self.claims.get("groups")
        paths = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
        return tuple(dict.fromkeys(match.group(1) for match in map(pattern.fullmatch, paths) if match))


class IssuerKeys:
    """The issuer's signing keys: cached, fetched again when they rotate, kept through an outage of the issuer."""

    def __init__(self, settings: IssuerSettings) -> None:
        self._settings = settings
        self._tls = ssl.create_default_context(cafile=settings.issuer_ca_file)
        self._lock = threading.Lock()
        self._client: jwt.PyJWKClient | None = None
        self._known: dict[str, jwt.PyJWK] = {}
        self._known_at = 0.0
        self._retry_at = 0.0

    def find(self, key_id: str) -> jwt.PyJWK:
        """The key of that id.

        Raises:
            InvalidToken: the issuer publishes no such key.
            IssuerUnavailable: the issuer does not respond and no keys are cached.
        """
        with self._lock:
            try:
                key = self._ask(lambda client: client.get_signing_key(key_id))
            except jwt.PyJWKClientError as error:
                raise InvalidToken("the issuer publishes no key with the token's key id") from error
            return key or self._find_stale(key_id)

    def current(self, algorithm: str) -> jwt.PyJWK | None:
        """The first key of an algorithm that the issuer publishes, which issuers sign with; through an outage, the last
        one that was read.

        Args:
            algorithm: of the signatures, RS256.

        Returns:
            None while the issuer has not answered since the start, or publishes no such key.
        """
        with self._lock:
            try:
                keys = self._ask(lambda client: client.get_signing_keys())
            except jwt.PyJWKClientError:
                keys = []
            known = [*self._known.values()] if keys is None else keys
            return next((key for key in known if key.algorithm_name == algorithm), None)

    def _ask(self, question: Callable[[jwt.PyJWKClient], AnswerT]) -> AnswerT | None:
        """What the issuer's keys answer; None while it does not respond. Callers hold the lock.

        Raises:
            PyJWKClientError: it has no such key.
        """
        if time.monotonic() < self._retry_at:
            return None
        try:
            client = self._client or self._discover()
            self._client = client
            try:
                return question(client)
            finally:
                if (cache := client.jwk_set_cache) and (keys := cache.get()):
                    self._known = {k.key_id: k for k in keys.keys if k.key_id}
                    self._known_at = time.monotonic()
        except (jwt.PyJWKClientConnectionError, OSError, ValueError, jwt.PyJWKSetError) as error:
            log.warning("issuer does not respond", error=str(error))
            self._retry_at = time.monotonic() + self._settings.keys_refresh_seconds
            return None

    def _find_stale(self, key_id: str) -> jwt.PyJWK:
        if not self._known or time.monotonic() - self._known_at > STALE_SECONDS:
            raise IssuerUnavailable("the token issuer does not respond")
        if key_id not in self._known:
            raise InvalidToken("the issuer published no key with the token's key id when it last answered")
        return self._known[key_id]

    def _discover(self) -> jwt.PyJWKClient:
        settings = self._settings
        url = str(settings.jwks_url) if settings.jwks_url else self._read_discovery_document()
        return jwt.PyJWKClient(
            url,
            lifespan=settings.keys_lifetime_seconds,
            cooldown_duration=settings.keys_refresh_seconds,
            timeout=FETCH_TIMEOUT_SECONDS,
            ssl_context=self._tls,
        )

    def _read_discovery_document(self) -> str:
        issuer = self._settings.issuer_claim
        request = urllib.request.Request(f"{issuer}/.well-known/openid-configuration")  # noqa: S310 (http(s) by type)
        with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_SECONDS, context=self._tls) as response:  # noqa: S310
            document = json.load(response)
        if document.get("issuer", "").rstrip("/") != issuer:
            raise ValueError(f"the discovery document of {issuer} names another issuer: {document.get('issuer')}")
        return str(document["jwks_uri"])


class TokenVerifier:
    """Checks signature, issuer, audience and times of a token."""

    def __init__(self, settings: IssuerSettings) -> None:
        self._settings = settings
        self.keys = IssuerKeys(settings)

    def verify(self, token: str) -> Caller:
        """Who holds the token.

        Raises:
            InvalidToken: it does not hold.
            IssuerUnavailable: it cannot be checked now.
        """
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            # before any key is looked for: `none` and HMAC are in no allow-list
            if header.get("alg") not in settings.token_algorithms:
                raise InvalidToken("the token's signature algorithm is not accepted")
            key_id = header.get("kid")
            if not isinstance(key_id, str) or not key_id:
                raise InvalidToken("the token names no key id")
            claims = jwt.decode(
                token,
                self.keys.find(key_id).key,
                algorithms=list(settings.token_algorithms),
                audience=settings.audience,
                issuer=[settings.issuer_claim, settings.issuer_claim + "/"],
                leeway=settings.token_leeway_seconds,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise InvalidToken("the token has expired") from error
        except jwt.InvalidAudienceError as error:
            raise InvalidToken(f"the token is not for the audience {settings.audience}") from error
        except jwt.InvalidIssuerError as error:
            raise InvalidToken(f"the token is not from the issuer {settings.issuer_claim}") from error
        except jwt.MissingRequiredClaimError as error:
            raise InvalidToken(f"the token is missing the claim {error.claim}") from error
        except jwt.InvalidSignatureError as error:
            raise InvalidToken("the token's signature does not hold") from error
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError) as error:
            raise InvalidToken("the token is not a valid JWT") from error
        return Caller(subject=str(claims["sub"]), claims=claims)
