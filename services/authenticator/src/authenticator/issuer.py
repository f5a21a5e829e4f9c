"""The issuer's token and revocation endpoints, and what their refusals mean for the caller."""

from __future__ import annotations

import ssl
from typing import Any

import httpx2
import structlog
from fastapi import HTTPException
from pydantic import HttpUrl

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
            HTTPException: 400 or 401 where the issuer refuses, 503 where it does not respond.
        """
        scope = {"scope": "openid"} if form["grant_type"] == "password" else {}
        status, body = await self._post(self._settings.token_url, {**form, **scope}, client or self._password_client)
        if status != httpx2.codes.OK:
            raise self._refused(form["grant_type"], status, body, own=client is None)
        return self._granted(body)

    async def refresh_personal(self, refresh_token: str) -> dict[str, Any]:
        """The issuer's answer to the refresh token of a personal access token.

        Raises:
            HTTPException: 401 where the issuer no longer accepts it, 503 where the issuer does not respond or refuses
                the client that logs browsers in.
        """
        settings = self._settings
        client = ClientCredentials(settings.client_id, settings.read_client_secret())
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        status, body = await self._post(settings.token_url, form, client)
        if status == httpx2.codes.OK:
            return self._granted(body)
        error = str(body.get("error", ""))
        log.info("issuer refused a personal access token", status=status, error=error)
        if error == "invalid_grant":
            raise HTTPException(401, "the issuer no longer accepts this token: create a new one")
        log.error("the issuer refuses the client that logs browsers in", client=settings.client_id)
        detail = "personal access tokens do not work at the moment, tell the operators"
        raise HTTPException(503, detail, headers={"Retry-After": "60"})

    async def revoke(self, token: str) -> None:
        """Ends a refresh token of the service's client; the issuer reports nothing about tokens that it does not know.

        Raises:
            HTTPException: 400 where the issuer revokes no such token, or none at all; 503 where it does not respond.
        """
        settings = self._settings
        if settings.revoke_url is None:
            raise HTTPException(400, f"the issuer of this site revokes no tokens here: end sessions at {self._account}")
        status, body = await self._post(settings.revoke_url, {"token": token}, self._password_client)
        if status == httpx2.codes.OK:
            return
        error = str(body.get("error", ""))
        log.info("issuer refused a revocation", status=status, error=error)
        if self._is_wrong_client(status, error):
            log.error("the issuer refuses the client of this service", client=settings.password_client_id)
            detail = f"tokens cannot be revoked here at the moment, tell the operators; {self._account} ends sessions"
            raise HTTPException(503, detail, headers={"Retry-After": "60"})
        raise HTTPException(400, f"the issuer does not revoke this token: end its session at {self._account}")

    @property
    def _account(self) -> str:
        return str(self._settings.account_url)

    @property
    def _password_client(self) -> ClientCredentials:
        settings = self._settings
        return ClientCredentials(settings.password_client_id, settings.read_password_client_secret())

    async def _post(self, url: HttpUrl, form: dict[str, str], client: ClientCredentials) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an endpoint; a body may be missing.

        Raises:
            HTTPException: 503 where the endpoint does not respond, or with no JSON object.
        """
        # in the form: ids and secrets with special characters are encoded in one way only
        fields = {**form, "client_id": client.id} | ({"client_secret": client.secret} if client.secret else {})
        try:
            async with httpx2.AsyncClient(verify=self._tls, timeout=SECONDS, trust_env=False) as http:
                answer = await http.post(str(url), data=fields)
            body = answer.json() if answer.content else {}
        except (httpx2.HTTPError, ValueError) as error:
            raise self._unavailable(type(error).__name__) from error
        if not isinstance(body, dict) or answer.status_code >= 500:
            raise self._unavailable(f"status {answer.status_code}")
        return answer.status_code, body

    def _granted(self, answer: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(answer.get("access_token"), str):
            raise self._unavailable("no access token")
        return answer

    @staticmethod
    def _is_wrong_client(status: int, error: str) -> bool:
        # Keycloak has one word for a wrong secret of a client (401) and for a grant that a client may not use (400)
        return error == "invalid_client" or (error == "unauthorized_client" and status == UNAUTHORIZED)

    def _unavailable(self, reason: str) -> HTTPException:
        log.warning("issuer does not respond to a request for tokens", reason=reason)
        return HTTPException(503, "the login service does not respond; try again", headers={"Retry-After": "10"})

    def _refused(self, grant: str, status: int, answer: dict[str, Any], *, own: bool) -> HTTPException:
        error, description = str(answer.get("error", "")), str(answer.get("error_description", ""))
        log.info("issuer refused", grant=grant, status=status, error=error)
        wrong_client, page, tokens = self._is_wrong_client(status, error), self._account, self._settings.web_origin
        if wrong_client and own:
            log.error("the issuer refuses the client of this service", client=self._settings.password_client_id)
            detail = f"logins by password do not work at the moment, tell the operators; {page} logs in by browser"
            return HTTPException(503, detail, headers={"Retry-After": "60"})
        if wrong_client:
            return HTTPException(401, "the issuer knows no client with this client_id and client_key")
        if error in ("unauthorized_client", "unsupported_grant_type"):
            if grant == "password":
                detail = f"this login takes no password here: create a personal access token in the browser ({tokens})"
                return HTTPException(400, f"{detail}, and use it in place of the password")
            return HTTPException(400, f"this client may not use {grant}: log in by browser ({page})")
        if grant == "password" and (error == "interaction_required" or "not fully set up" in description):
            detail = "the account must act first, for instance replace a temporary password: log in by browser at"
            return HTTPException(400, f"{detail} {page}, then try again")
        if grant == "password" and error == "invalid_grant":
            detail = f"user name or password is wrong, or the account is locked: see {page}. With a second factor,"
            return HTTPException(401, f"{detail} use a personal access token in place of the password: {tokens}")
        if error == "invalid_grant":
            what = "refresh token" if grant == "refresh_token" else "code"
            return HTTPException(401, f"the {what} has expired, or is another client's: log in again")
        return HTTPException(400, f"the issuer refuses the request: {error or 'no reason given'}")
