"""The application: discovery document, keys and tokens."""

from __future__ import annotations

import base64
import binascii
import logging
import time
import uuid
from typing import Annotated, Any, Literal
from urllib.parse import unquote_plus

import jwt
from fastapi import FastAPI, Form, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from token_issuer.clients import Client, Clients
from token_issuer.keys import KeySet
from token_issuer.settings import Settings

log = logging.getLogger("token_issuer")

# RFC 6749 section 5.1: token responses are kept by no cache
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class TokenResponse(BaseModel):
    """RFC 6749 section 5.1."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 (a kind, no secret)
    expires_in: int = Field(description="Seconds.")
    scope: str


class TokenError(Exception):
    """RFC 6749 section 5.2."""

    def __init__(self, error: str, description: str, status: int = 400, challenge: str | None = None) -> None:
        super().__init__(description)
        self.error, self.description, self.status, self.challenge = error, description, status, challenge


def create_app(settings: Settings) -> FastAPI:
    """The issuer with its keys and clients.

    Raises:
        UnusableKey, UnusableClients: a mounted file cannot be used.
    """
    keys = KeySet.read(settings.signing_key_file, settings.previous_keys_directory)
    clients = Clients.read(settings.clients_file)
    issuer = settings.issuer_claim
    app = FastAPI(title="Token issuer", version="1", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(TokenError)
    async def _token_error(_request: Request, error: TokenError) -> JSONResponse:
        headers = {**NO_STORE, **({"WWW-Authenticate": error.challenge} if error.challenge else {})}
        return JSONResponse({"error": error.error, "error_description": error.description}, error.status, headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid_request(_request: Request, error: RequestValidationError) -> JSONResponse:
        # the values stay out of it: a secret may stand in the wrong field
        fields = sorted({str(e["loc"][-1]) for e in error.errors()})
        description = "missing or wrong: " + ", ".join(fields)
        return JSONResponse({"error": "invalid_request", "error_description": description}, 400, NO_STORE)

    @app.get("/.well-known/openid-configuration")
    async def discovery_document() -> dict[str, Any]:
        """OpenID Connect Discovery 1.0."""
        return {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/jwks",
            "token_endpoint": f"{issuer}/token",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [keys.current.published.algorithm],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }

    @app.get("/jwks")
    async def published_keys() -> JSONResponse:
        """The JWK Set."""
        return JSONResponse(keys.document, headers={"Cache-Control": "public, max-age=300"})

    @app.post("/token")
    async def issue_token(
        request: Request,
        posted_client_id: Annotated[str | None, Form(alias="client_id", max_length=256)] = None,
        client_secret: Annotated[str | None, Form(max_length=1024)] = None,
        grant_type: Annotated[str, Form(max_length=64)] = "",
        audience: Annotated[str | None, Form(max_length=256)] = None,
        scope: Annotated[str | None, Form(max_length=1024)] = None,
    ) -> JSONResponse:
        """The client credentials grant of RFC 6749 section 4.4; claims as in RFC 9068."""
        client_id, client = _authenticate(request, clients, posted_client_id, client_secret)
        if grant_type != "client_credentials":
            raise TokenError("unsupported_grant_type", "grant_type must be client_credentials")
        chosen = audience or client.audiences[0]
        if chosen not in client.audiences:
            raise TokenError("invalid_target", f"this client's audiences are: {', '.join(client.audiences)}")
        wanted = scope.split() if scope else list(client.scopes)
        if set(wanted) - set(client.scopes):
            raise TokenError("invalid_scope", f"this client's scopes are: {' '.join(client.scopes) or 'none'}")
        now = int(time.time())
        claims = {
            "iss": issuer,
            "sub": client_id,
            "client_id": client_id,
            "aud": chosen,
            "iat": now,
            "exp": now + settings.lifetime_seconds,
            "jti": str(uuid.uuid4()),
            "scope": " ".join(wanted),
        }
        key = keys.current
        headers = {"kid": key.published.key_id, "typ": "at+jwt"}
        token = jwt.encode(claims, key.private_key, key.published.algorithm, headers=headers)
        log.info("token issued to client %s for %s", client_id, chosen)
        answer = TokenResponse(access_token=token, expires_in=settings.lifetime_seconds, scope=" ".join(wanted))
        return JSONResponse(answer.model_dump(), headers=NO_STORE)

    @app.get("/healthz")
    async def live() -> dict[str, str]:
        """The keys and clients were read."""
        return {"status": "ok"}

    return app


def _authenticate(
    request: Request, clients: Clients, client_id: str | None, client_secret: str | None
) -> tuple[str, Client]:
    """Who asks, by HTTP Basic or by form fields (RFC 6749 section 2.3.1)."""
    challenge = None
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        challenge = 'Basic realm="token-issuer"'
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise TokenError("invalid_client", "the Authorization header is no HTTP Basic", 401, challenge) from None
        client_id, client_secret = unquote_plus(name), unquote_plus(password)
    if not client_id or not client_secret:
        raise TokenError("invalid_client", "client id and secret are needed", 401, 'Basic realm="token-issuer"')
    client = clients.authenticate(client_id, client_secret)
    if client is None:
        log.warning("client %.64r refused", client_id)
        raise TokenError("invalid_client", "unknown client or wrong secret", 401, challenge)
    return client_id, client
