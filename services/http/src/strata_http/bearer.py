"""The token of a request, as RFC 6750 has it: `Authorization: Bearer …`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from strata_http.tokens import Caller, InvalidToken, IssuerUnavailable, TokenVerifier

_bearer = HTTPBearer(auto_error=False, bearerFormat="JWT", description="A JWT of the site's issuer.")


def require_token(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Dependency of every route behind a token.

    Raises:
        HTTPException: 401 with a challenge as in RFC 6750, or 503 when the issuer does not answer.
    """
    realm = f'Bearer realm="{request.app.state.realm}"'
    if credentials is None or not credentials.credentials:
        detail = "this route needs a token: Authorization: Bearer …"
        raise HTTPException(401, detail, headers={"WWW-Authenticate": realm})
    verifier: TokenVerifier = request.app.state.verifier
    try:
        caller = verifier.verify(credentials.credentials)
    except InvalidToken as error:
        challenge = f'{realm}, error="invalid_token", error_description="{error}"'
        raise HTTPException(401, str(error), headers={"WWW-Authenticate": challenge}) from error
    except IssuerUnavailable as error:
        raise HTTPException(503, f"{error}; try again", headers={"Retry-After": "10"}) from error
    request.state.subject, request.state.username = caller.subject, caller.username
    return caller
