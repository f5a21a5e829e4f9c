"""Logins by browser: to the issuer's own page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from authenticator.settings import Settings

router = APIRouter(tags=["tokens"])


class AuthorizationRequest(BaseModel):
    """Parameters of RFC 6749, RFC 7636 and OpenID Connect; others are left out."""

    model_config = ConfigDict(extra="ignore")

    client_id: str = Field(min_length=1, max_length=255, description="Client of the issuer.")
    redirect_uri: str = Field(min_length=1, max_length=2048, description="One that the issuer knows of the client.")
    response_type: str = Field(default="code", pattern="^code$", max_length=8)
    scope: str | None = Field(default=None, max_length=1024)
    state: str | None = Field(default=None, max_length=2048)
    nonce: str | None = Field(default=None, max_length=512)
    code_challenge: str | None = Field(default=None, max_length=256)
    code_challenge_method: str | None = Field(default=None, max_length=16)
    prompt: str | None = Field(default=None, max_length=64)


@router.get(
    "/oauth2/authorize",
    summary="Log in by browser",
    status_code=302,
    response_class=RedirectResponse,
    responses={302: {"description": "To the issuer's login page, which checks client and redirect_uri."}},
)
async def authorize(request: Request, given: Annotated[AuthorizationRequest, Query()]) -> RedirectResponse:
    """The address is always the issuer's: only its query comes from the request."""
    settings: Settings = request.app.state.settings
    url = str(settings.authorize_url)
    query = urlencode(given.model_dump(exclude_none=True))
    return RedirectResponse(f"{url}{'&' if '?' in url else '?'}{query}", 302, headers={"Cache-Control": "no-store"})
