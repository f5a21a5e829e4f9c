"""A service as its users meet it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests


@dataclass(frozen=True)
class Api:
    """A service at the site's load balancer."""

    http: requests.Session
    url: str

    def get(self, path: str, token: str | None = None, **parameters: str | int) -> requests.Response:
        """GET with a token, where one is given."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.http.get(self.url + path, params=parameters, headers=headers, timeout=30)


def envelope(response: requests.Response, status: int = 200) -> dict[str, Any]:
    """The body of a response in Tapis' envelope.

    Raises:
        AssertionError: it has another status, or is in another form.
    """
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert body.keys() == {"message", "metadata", "result", "status", "version"}
    assert body["status"] == ("success" if status < 400 else "error")
    return body
