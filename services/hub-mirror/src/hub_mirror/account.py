"""Who the caller is, in the Hub's form."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from hub_mirror.mirror import TheMirror
from hub_mirror.readers import Who
from hub_mirror.refusals import HUB_ERRORS, unauthorized
from hub_mirror.responses import bytes_response, json_response, refused
from strata_http.tokens import Caller

router = APIRouter(tags=["account"])


@router.get(
    "/api/whoami-v2",
    summary="The caller",
    response_model=dict[str, Any],
    responses=HUB_ERRORS.described({403: "The Hub refuses the token.", 504: "The Hub does not respond."}),
)
async def show_caller(mirror: TheMirror, who: Who) -> Response:
    """With a token of the site: its user and tenants. With a token of the Hub alone: what the Hub returns."""
    if who.caller is not None:
        return json_response(_user(who.caller))
    if who.hub_token is None:
        raise unauthorized("this route needs a token: Authorization: Bearer …")
    answer = await mirror.upstream.ask("/api/whoami-v2", token=who.hub_token)
    if answer.status != 200:
        raise refused(answer, "the token")
    return bytes_response(answer.body)


def _user(caller: Caller) -> dict[str, Any]:
    tenants = [{"type": "org", "name": tenant, "fullname": tenant, "roleInOrg": "write"} for tenant in caller.tenants]
    return {
        "type": "user",
        "id": caller.subject,
        "name": caller.username,
        "fullname": str(caller.claims.get("name") or caller.username),
        "isPro": False,
        "orgs": tenants,
        "auth": {"type": "access_token", "accessToken": {"displayName": "site", "role": "write"}},
    }
