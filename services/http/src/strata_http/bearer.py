"""The token of a request: `Authorization: Bearer …` as RFC 6750 has it, or `X-Tapis-Token: …` of Tapis' clients."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from strata_http.tokens import Caller, InvalidToken, IssuerUnavailable, TokenVerifier

_bearer = HTTPBearer(auto_error=False, bearerFormat="JWT", description="A JWT of the site's issuer.")
TAPIS_HEADER = "X-Tapis-Token"
_tapis = APIKeyHeader(name=TAPIS_HEADER, auto_error=False, description="The same JWT, as Tapis' clients send it.")


def accept_token(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    _header: Annotated[str | None, Depends(_tapis)],
) -> Caller | None:
    """Dependency of a route that takes tokens, and does without one; None: the request has none.

    Raises:
        HTTPException: 400 for two tokens that differ, 401 with a challenge as in RFC 6750 for one that does not hold,
            or 503 when the issuer does not respond.
    """
    # all of them: the framework reads the first of several headers, a proxy may read another
    tokens = {*request.headers.getlist(TAPIS_HEADER), credentials.credentials if credentials else ""} - {""}
    if not tokens:
        return None
    if len(tokens) > 1:
        raise HTTPException(400, f"Authorization and {TAPIS_HEADER} hold different tokens: send one")
    verifier: TokenVerifier = request.app.state.verifier
    try:
        caller = verifier.verify(tokens.pop())
    except InvalidToken as error:
        challenge = f'{_realm(request)}, error="invalid_token", error_description="{error}"'
        raise HTTPException(401, str(error), headers={"WWW-Authenticate": challenge}) from error
    except IssuerUnavailable as error:
        raise HTTPException(503, f"{error}; try again", headers={"Retry-After": "10"}) from error
    request.state.subject, request.state.username = caller.subject, caller.username
    return caller


def require_token(request: Request, caller: Annotated[Caller | None, Depends(accept_token)]) -> Caller:
    """Dependency of every route behind a token.

    Raises:
        HTTPException: as accept_token, and 401 without a token.
    """
    if caller is None:
        detail = f"this route needs a token: Authorization: Bearer …, or {TAPIS_HEADER}: …"
        raise HTTPException(401, detail, headers={"WWW-Authenticate": _realm(request)})
    return caller


def _realm(request: Request) -> str:
    return f'Bearer realm="{request.app.state.realm}"'
