"""Logins: a token of the site's issuer for a password, a personal access token, a refresh token or a code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from authenticator import grants
from authenticator.exchange import Exchange
from authenticator.issuer import TokenEndpoint
from authenticator.personal_tokens import is_personal
from strata_http.audit import Change, describe
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.rate_limits import limit_address, limit_name

PER_ADDRESS = "120/minute"
"""A campus may have one address."""
PER_NAME = "20/minute"
"""Beside the issuer's own protection, which locks an account for a while."""
router = APIRouter(tags=["tokens"])


class Lifetime(BaseModel):
    """Of a token."""

    expires_in: int = Field(description="Seconds from now.")
    expires_at: str = Field(description="The same in UTC, as ISO 8601.", examples=["2026-11-27T12:00:00+00:00"])
    jti: str = Field(description="Id of the token; empty where it has none.")


class AccessToken(Lifetime):
    """For the services of the site."""

    access_token: str


class RefreshToken(Lifetime):
    """For the next access token."""

    refresh_token: str


class Tokens(BaseModel):
    """What a login gives."""

    access_token: AccessToken
    refresh_token: RefreshToken | None = None


@router.post(
    "/oauth2/tokens",
    summary="Log in",
    status_code=201,
    response_model_exclude_none=True,
    dependencies=[Depends(limit_address(PER_ADDRESS))],
    responses=ENVELOPE.described(
        {
            401: "The name, password, refresh token, code or client is refused, or the personal access token.",
            413: "The body is too long.",
            415: "The body is neither JSON nor a form.",
            503: "The issuer does not respond.",
        }
    ),
    openapi_extra={"requestBody": grants.body_schema(grants.TokenRequest)},
)
async def create_token(request: Request, response: Response) -> Envelope[Tokens]:
    """By `grant_type` password, refresh_token or authorization_code. The token is the issuer's, for all services.

    A personal access token is accepted as `password` or `refresh_token`, and needs no client; the response has no
    refresh token then.
    """
    given = await grants.read(request, grants.TokenRequest)
    client = grants.client_credentials(request, given)
    describe(request, Change("tokens.create", "tokens", username=given.username))
    if (personal := _personal(given)) is not None:
        exchange: Exchange = request.app.state.exchange
        issued = await exchange.access_token(request, given, personal)
    else:
        if given.username is not None:
            await limit_name(request, PER_NAME, given.username.lower())
        endpoint: TokenEndpoint = request.app.state.token_endpoint
        issued = await endpoint.request(given.form(), client)
    response.headers["Cache-Control"] = "no-store"
    access = str(issued["access_token"])
    tokens = Tokens(access_token=AccessToken(access_token=access, **_lifetime(access, issued.get("expires_in"))))
    if isinstance(refresh := issued.get("refresh_token"), str):
        lifetime = _lifetime(refresh, issued.get("refresh_expires_in"))
        tokens.refresh_token = RefreshToken(refresh_token=refresh, **lifetime)
    return success(request, "Token created successfully.", tokens)


def _personal(given: grants.TokenRequest) -> str | None:
    """The personal access token of a request that has one."""
    secret = {"password": given.password, "refresh_token": given.refresh_token}.get(given.grant_type)
    text = "" if secret is None else secret.get_secret_value()
    return text if is_personal(text) else None


def _lifetime(token: str, seconds: object) -> dict[str, Any]:
    """Fields of Lifetime; of a token that is not a JWT, as far as the issuer reports."""
    try:
        # its holder gets it from the issuer, over the service's own connection
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        claims = {}
    expires_in = seconds if isinstance(seconds, int) else 0
    expires_at = datetime.now(UTC) + timedelta(seconds=expires_in)
    return {"expires_in": expires_in, "expires_at": expires_at.isoformat(), "jti": str(claims.get("jti") or "")}
