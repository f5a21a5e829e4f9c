"""The end of a token before its time (RFC 7009)."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from authenticator import grants, personal_tokens, store
from authenticator.exchange import target_of
from authenticator.issuer import TokenEndpoint
from strata_http.audit import Change, describe
from strata_http.database import transaction
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.rate_limits import limit_address

PER_ADDRESS = "120/minute"
ACTION = "tokens.revoke"
router = APIRouter(tags=["tokens"])


@router.post(
    "/oauth2/tokens/revoke",
    summary="Revoke a token",
    dependencies=[Depends(limit_address(PER_ADDRESS))],
    responses=ENVELOPE.described(
        {
            413: "The body is too long.",
            415: "The body is neither JSON nor a form.",
            503: "The issuer does not respond.",
        }
    ),
    openapi_extra={"requestBody": grants.body_schema(grants.RevocationRequest)},
)
async def revoke_token(request: Request) -> Envelope[str]:
    """A personal access token, or a refresh token of a login; 200 also for one that is unknown.

    Access tokens cannot be revoked: services do not ask the issuer about them. They end after 15 minutes at most.
    """
    given = await grants.read(request, grants.RevocationRequest)
    text = given.token.get_secret_value()
    if not personal_tokens.is_personal(text):
        describe(request, Change(ACTION, "tokens"))
        endpoint: TokenEndpoint = request.app.state.token_endpoint
        await endpoint.revoke(text)
    elif token := personal_tokens.parse(text):
        describe(request, Change(ACTION, target_of(token.id)))
        async with transaction(request) as connection:
            row = await store.lock(connection, token.id)
            if row is not None and token.open(row.sealed) is not None:
                describe(request, Change(ACTION, target_of(token.id), username=row.username))
                await store.remove(connection, token.id, row.subject)
    return success(request, "Token revoked.", "")
