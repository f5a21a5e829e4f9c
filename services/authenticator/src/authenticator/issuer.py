"""The issuer's token endpoint, and what its refusals mean for the caller."""

from __future__ import annotations

import ssl
from typing import Any

import httpx2
import structlog
from fastapi import HTTPException

from authenticator.grants import ClientCredentials
from authenticator.settings import Settings

UNAUTHORIZED = 401
SECONDS = 15.0
"""Of one answer; checking a password takes the issuer a while on purpose."""

log = structlog.get_logger(__name__)


class TokenEndpoint:
    """Passes grants on to the issuer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tls = ssl.create_default_context(cafile=settings.issuer_ca_file)

    async def request(self, form: dict[str, str], client: ClientCredentials | None) -> dict[str, Any]:
        """The issuer's answer.

        Args:
            form: of the grant.
            client: that the caller named; None: the service's own.

        Raises:
            HTTPException: 400 or 401 where the issuer refuses, 503 where it does not answer.
        """
        settings = self._settings
        used = client or ClientCredentials(settings.client_id, settings.read_client_secret())
        # in the form: ids and secrets with special characters are encoded in one way only
        fields = {**form, "client_id": used.id} | ({"client_secret": used.secret} if used.secret else {})
        if form["grant_type"] == "password":
            fields["scope"] = "openid"
        try:
            async with httpx2.AsyncClient(verify=self._tls, timeout=SECONDS, trust_env=False) as http:
                answer = await http.post(str(settings.token_url), data=fields)
            found = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise self._unavailable(type(error).__name__) from error
        if not isinstance(found, dict) or answer.status_code >= 500:
            raise self._unavailable(f"status {answer.status_code}")
        if answer.status_code != httpx2.codes.OK:
            raise self._refused(form["grant_type"], answer.status_code, found, own=client is None)
        if not isinstance(found.get("access_token"), str):
            raise self._unavailable("no access token")
        return found

    def _unavailable(self, reason: str) -> HTTPException:
        log.warning("issuer's token endpoint does not answer", reason=reason)
        return HTTPException(503, "the login service does not answer; try again", headers={"Retry-After": "10"})

    def _refused(self, grant: str, status: int, answer: dict[str, Any], *, own: bool) -> HTTPException:
        error, description = str(answer.get("error", "")), str(answer.get("error_description", ""))
        log.info("issuer refused", grant=grant, status=status, error=error)
        # Keycloak has one word for a wrong secret of a client (401) and for a grant that a client may not use (400)
        wrong_client = error == "invalid_client" or (error == "unauthorized_client" and status == UNAUTHORIZED)
        page = self._settings.account_url
        if wrong_client and own:
            log.error("the issuer refuses the client of this service", client=self._settings.client_id)
            detail = f"logins by password do not work at the moment, tell the operators; {page} logs in by browser"
            return HTTPException(503, detail, headers={"Retry-After": "60"})
        if wrong_client:
            return HTTPException(401, "the issuer knows no client with this client_id and client_key")
        if error in ("unauthorized_client", "unsupported_grant_type"):
            what = "this login takes no password here" if grant == "password" else f"this client may not use {grant}"
            return HTTPException(400, f"{what}: log in by browser ({page}), and pass the token as access_token")
        if grant == "password" and (error == "interaction_required" or "not fully set up" in description):
            detail = "the account must act first, for instance replace a temporary password: log in by browser at"
            return HTTPException(400, f"{detail} {page}, then try again")
        if grant == "password" and error == "invalid_grant":
            detail = "user name or password is wrong, or the account is locked, or needs a second factor: see"
            return HTTPException(401, f"{detail} {page}")
        if error == "invalid_grant":
            what = "refresh token" if grant == "refresh_token" else "code"
            return HTTPException(401, f"the {what} has expired, or is another client's: log in again")
        return HTTPException(400, f"the issuer refuses the request: {error or 'no reason given'}")
