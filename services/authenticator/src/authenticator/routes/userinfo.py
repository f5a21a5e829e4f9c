"""Who holds a token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from strata_http.bearer import require_token
from strata_http.envelope import Envelope, success
from strata_http.tokens import Caller

router = APIRouter(tags=["tokens"])


class Profile(BaseModel):
    """A user, by the claims of the token; empty what the issuer does not report."""

    username: str = Field(examples=["ada"])
    name: str = Field(examples=["Ada Lovelace"])
    email: str = Field(examples=["ada@example.org"])


@router.get("/oauth2/userinfo", summary="Get the token's holder")
async def get_userinfo(request: Request, caller: Annotated[Caller, Depends(require_token)]) -> Envelope[Profile]:
    """The signature is checked, the issuer is not asked."""
    name, email = (str(caller.claims.get(claim) or "") for claim in ("name", "email"))
    return success(request, "User retrieved.", Profile(username=caller.username, name=name, email=email))
