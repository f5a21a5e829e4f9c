"""Keycloak's Admin REST API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

SECONDS = 60.0
"""For one answer; the first ones of a new pod take long."""
EXPIRY_MARGIN = 15.0
"""Seconds before its end that a token is replaced."""
Json = Any


class Refused(Exception):
    """Keycloak answered with an error.

    Args:
        status: of HTTP.
        message: the request and the response.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(Exception):
    """Keycloak does not respond."""


class Api:
    """One realm, as the administrator that Keycloak was started with.

    Args:
        url: of Keycloak.
        realm: name of the realm.
        client: id of the administrator's client, in the master realm.
        secrets: of that client, the current one first; the previous one is good until `adopt_secret`.
    """

    def __init__(self, url: str, realm: str, client: str, secrets: tuple[str, ...]) -> None:
        self._url, self.realm, self._client, self._secrets = url.rstrip("/"), realm, client, secrets
        self._token, self._ends = "", 0.0
        self.current_secret = True
        """Whether the last login was with the current secret."""

    def get(self, path: str, **parameters: str | int) -> Json:
        """GET below the realm."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return self.request("GET", f"/admin/realms/{self.realm}{path}{query}")

    def post(self, path: str, body: Json) -> str:
        """POST below the realm; returns the id of what was made."""
        return str(self.request("POST", f"/admin/realms/{self.realm}{path}", body))

    def put(self, path: str, body: Json = None) -> None:
        """PUT below the realm."""
        self.request("PUT", f"/admin/realms/{self.realm}{path}", body)

    def delete(self, path: str) -> None:
        """DELETE below the realm."""
        self.request("DELETE", f"/admin/realms/{self.realm}{path}")

    def request(self, method: str, path: str, body: Json = None) -> Json:
        """Any request as the administrator.

        Returns:
            the answer's JSON; of something new, its id.

        Raises:
            Refused: Keycloak answered with an error.
            Unavailable: it did not respond.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._valid_token()}", "Content-Type": "application/json"}
        return self._ask(method, path, data, headers)

    def adopt_secret(self) -> None:
        """Gives the administrator's client the current secret, where the last login took the previous one."""
        if self.current_secret:
            return
        (client,) = self.request("GET", f"/admin/realms/master/clients?clientId={self._client}")
        self.request("PUT", f"/admin/realms/master/clients/{client['id']}", {**client, "secret": self._secrets[0]})
        self._token = ""

    def _valid_token(self) -> str:
        if self._token and time.monotonic() < self._ends:
            return self._token
        for number, secret in enumerate(self._secrets):
            form = {"grant_type": "client_credentials", "client_id": self._client, "client_secret": secret}
            try:
                answer = self._ask(
                    "POST",
                    "/realms/master/protocol/openid-connect/token",
                    urllib.parse.urlencode(form).encode(),
                    {"Content-Type": "application/x-www-form-urlencoded"},
                )
            except Refused as error:
                if error.status != 401 or number == len(self._secrets) - 1:
                    raise
                continue
            self.current_secret = number == 0
            self._token = str(answer["access_token"])
            self._ends = time.monotonic() + float(answer["expires_in"]) - EXPIRY_MARGIN
            break
        return self._token

    def _ask(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Json:
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)  # noqa: S310  # the chart sets the URL
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310  # the same
                content = response.read()
                location = response.headers.get("Location", "")
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:500]
            raise Refused(error.code, f"{method} {path}: {error.code} {said}") from None
        except OSError as error:
            raise Unavailable(f"{self._url}: {error}") from None
        return json.loads(content) if content else location.rpartition("/")[2]
