"""A personal access token for an access token of the issuer."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import HTTPException, Request

from authenticator import personal_tokens, store
from authenticator.grants import TokenRequest
from authenticator.issuer import TokenEndpoint
from authenticator.personal_tokens import PersonalToken
from authenticator.settings import Settings
from strata_http.audit import Change, describe
from strata_http.database import transaction
from strata_http.rate_limits import limit_name

PER_TOKEN = "120/minute"  # noqa: S105  # a limit
"""A batch of jobs may log in at once; guesses at 256 bits need no lower limit."""
KEPT_CONNECTIONS = 2
"""Of the pool, for all else, such as probes: an exchange keeps one while the issuer responds."""


class Exchange:
    """Exchanges personal access tokens.

    Args:
        settings: of the service.
        endpoint: of the issuer.
    """

    def __init__(self, settings: Settings, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._account = f"see your tokens at {settings.web_origin}"
        self._turns = asyncio.Semaphore(max(1, settings.database_pool_size - KEPT_CONNECTIONS))

    async def access_token(self, request: Request, given: TokenRequest, text: str) -> dict[str, Any]:
        """The issuer's answer, without its refresh token.

        Args:
            request: of the caller.
            given: of the caller; the name, where it has one, must be the owner's.
            text: the personal access token.

        Raises:
            HTTPException: 401 where the token does not hold or the issuer no longer accepts it, 429 beyond PER_TOKEN,
                503 where the issuer does not respond.
        """
        token = personal_tokens.parse(text)
        if token is None:
            raise self._refused()
        target = target_of(token.id)
        describe(request, Change("tokens.create", target, username=given.username))
        await limit_name(request, PER_TOKEN, token.id)
        # the row is locked while the issuer responds: some issuers accept a refresh token once, and take the second use
        # for a theft
        async with self._turns, transaction(request) as connection:
            row = await store.lock(connection, token.id)
            refresh = None if row is None else token.open(row.sealed)
            if row is None or refresh is None:
                raise self._refused()
            if given.username is not None and given.username.lower() != row.username.lower():
                raise self._refused()
            describe(request, Change("tokens.create", target, username=row.username))
            answer = await self._endpoint.refresh_personal(refresh)
            await store.record_use(connection, token.id, _resealed(token, row.expires, refresh, answer))
        return {key: value for key, value in answer.items() if not key.startswith("refresh_")}

    def _refused(self) -> HTTPException:
        """One text for all causes: which of them it is, is the owner's to know."""
        detail = "the personal access token is wrong, expired or revoked, or is another user's"
        return HTTPException(401, f"{detail}: {self._account}")


def target_of(token_id: str) -> str:
    """A token in audit records."""
    return f"personal-access-tokens/{token_id}"


def _resealed(token: PersonalToken, expires: Any, refresh: str, answer: dict[str, Any]) -> str | None:
    """The next refresh token, sealed; None where the issuer's is the same, or it sends none."""
    replacement = answer.get("refresh_token")
    return (
        token.seal(replacement, expires) if isinstance(replacement, str) and replacement not in ("", refresh) else None
    )
