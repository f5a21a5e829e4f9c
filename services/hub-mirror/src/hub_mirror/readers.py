"""Who asks: by which port, with which tokens. The site's tokens end here, tokens of the Hub are their owner's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Receive, Scope, Send

from hub_mirror.refusals import refusal, unauthorized
from strata_http.bearer import TAPIS_HEADER
from strata_http.rate_limits import RateLimits, route_of
from strata_http.tokens import Caller, InvalidToken, IssuerUnavailable, TokenVerifier

_bearer = HTTPBearer(
    auto_error=False,
    bearerFormat="JWT",
    description="A JWT of the site's issuer; in pods, or beside it in X-Tapis-Token, a token of the Hub.",
)
"""For the OpenAPI document."""
NO_TOKEN = (
    f"this hub needs a token of the site: Authorization: Bearer …, or {TAPIS_HEADER}: … beside a token of the Hub"
)
_HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9_]{1,200}")


class InsidePort:
    """ASGI middleware: no proxy is in front of the port for pods, and what they send as their address is not believed.

    Args:
        app: the application.
        port: for pods.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] == "http":
            scope.setdefault("state", {})["inside"] = inside = scope["server"][1] == self.port
            if inside:
                kept = [(name, value) for name, value in scope["headers"] if name != b"x-forwarded-for"]
                scope["headers"] = [*kept, (b"x-forwarded-for", scope["client"][0].encode())]
        await self.app(scope, receive, send)


@dataclass(frozen=True)
class Reader:
    """Who asks.

    Args:
        caller: whose token of the site it is; None: anyone in a pod.
        hub_token: the caller's own token of the Hub, which goes to the upstream and nowhere else.
        base_url: of links in the response.
    """

    caller: Caller | None
    hub_token: str | None = field(repr=False)
    base_url: str

    @property
    def tenants(self) -> tuple[str, ...]:
        """That the caller is a member of."""
        return self.caller.tenants if self.caller else ()

    @property
    def anonymous(self) -> bool:
        """Whether there is no token at all."""
        return self.caller is None and self.hub_token is None


async def read_tokens(
    request: Request, _credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Reader:
    """Dependency of every route: the tokens of the request, within the limits of requests.

    Raises:
        HTTPException: 400 for two tokens of the site that differ, 401 without one at the port that needs it or for one
            that does not hold, 429 beyond the limit, 503 when the issuer does not respond.
    """
    inside: bool = request.state.inside
    sent = [value.partition(" ") for value in request.headers.getlist("Authorization")]
    bearers = {token.strip() for scheme, _, token in sent if scheme.lower() == "bearer"} - {""}
    if len(bearers) != len(set(request.headers.getlist("Authorization")) - {""}):
        raise unauthorized("Authorization has another scheme than Bearer", invalid=True)
    hub_tokens = {token for token in bearers if _HUB_TOKEN.fullmatch(token)}
    site_tokens = (bearers - hub_tokens) | ({*request.headers.getlist(TAPIS_HEADER)} - {""})
    if len(site_tokens) > 1 or len(hub_tokens) > 1:
        raise refusal(400, f"Authorization and {TAPIS_HEADER} hold different tokens: send one")
    # keys may be fetched, which blocks
    caller = await run_in_threadpool(_verified, request, site_tokens.pop()) if site_tokens else None
    if caller is None and not inside:
        raise unauthorized(NO_TOKEN)
    limits: RateLimits = request.app.state.rate_limits
    key = caller.subject if caller else request.client.host if request.client else "unknown"
    await limits.count(limits.calls, "caller" if caller else "address", key, route_of(request))
    settings = request.app.state.settings
    base = str(settings.inside_url if inside else settings.public_url).rstrip("/")
    return Reader(caller, hub_tokens.pop() if hub_tokens else None, base)


def _verified(request: Request, token: str) -> Caller:
    verifier: TokenVerifier = request.app.state.verifier
    try:
        caller = verifier.verify(token)
    except InvalidToken as error:
        raise unauthorized(str(error), invalid=True) from error
    except IssuerUnavailable as error:
        raise refusal(503, f"{error}; try again", headers={"Retry-After": "10"}) from error
    request.state.subject, request.state.username = caller.subject, caller.username
    return caller


Who = Annotated[Reader, Depends(read_tokens)]
