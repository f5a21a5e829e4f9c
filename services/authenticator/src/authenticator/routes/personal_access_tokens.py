"""Personal access tokens of the caller: the list, and the end of one. They are created in the browser only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi import Path as PathParameter
from pydantic import Field

from authenticator import store
from authenticator.exchange import target_of
from strata_http.audit import Change, describe
from strata_http.bearer import require_token
from strata_http.database import Connection
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.tokens import Caller
from strata_http.values import Response

router = APIRouter(prefix="/oauth2/personal-access-tokens", tags=["tokens"])
TokenId = Annotated[str, PathParameter(pattern="^[a-z0-9]{1,32}$", examples=["k3v9q0x2m5ab"])]


class PersonalAccessToken(Response):
    """A token, without its secret, which is shown once."""

    id: str = Field(description="The part of the token after `strata_pat_`.", examples=["k3v9q0x2m5ab"])
    name: str = Field(examples=["ci"])
    created: datetime
    expires: datetime
    last_used: datetime | None = Field(description="Null before the first use.")


@router.get("", summary="List your personal access tokens")
async def list_personal_access_tokens(
    request: Request, caller: Annotated[Caller, Depends(require_token)], connection: Connection
) -> Envelope[list[PersonalAccessToken]]:
    """The oldest first; expired ones are deleted."""
    rows = await store.list_of(connection, caller.subject)
    listed = [PersonalAccessToken.model_validate(row) for row in rows]
    return success(request, "Personal access tokens retrieved.", listed)


@router.delete(
    "/{token_id}",
    summary="Revoke a personal access token of yours",
    responses=ENVELOPE.described({404: "You have no such token."}),
)
async def delete_personal_access_token(
    request: Request, token_id: TokenId, caller: Annotated[Caller, Depends(require_token)], connection: Connection
) -> Envelope[str]:
    """At once; access tokens that were made with it end by themselves, at most 15 minutes later."""
    describe(request, Change("personal-access-tokens.delete", target_of(token_id)))
    if not await store.remove(connection, token_id, caller.subject):
        raise HTTPException(404, f"you have no personal access token {token_id}")
    return success(request, f"Personal access token {token_id} revoked.", "")
