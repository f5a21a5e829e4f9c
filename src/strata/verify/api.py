"""A service as its users meet it."""

from __future__ import annotations

from dataclasses import dataclass

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
