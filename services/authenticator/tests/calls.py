"""Requests of the tests to the API, and what comes back."""

from __future__ import annotations

import itertools
from typing import Any

import requests

from strata_bench.service_processes import Service

from .conftest import PASSWORD

ENVELOPE = {"message", "metadata", "result", "status", "version"}
_addresses = itertools.count(1)


def address() -> str:
    """Of a client that has sent nothing yet."""
    number = next(_addresses)
    return f"198.18.{number // 250}.{number % 250 + 1}"


def post(service: Service, body: dict[str, Any], path: str = "/oauth2/tokens", **headers: str) -> requests.Response:
    """A login, or another POST, each from an address of its own."""
    headers = {"X-Forwarded-For": address(), **headers}
    return requests.post(f"{service.url}/v3{path}", json=body, headers=headers, timeout=60)


def password(username: str = "ada", word: str = PASSWORD) -> dict[str, str]:
    """Of a login."""
    return {"grant_type": "password", "username": username, "password": word}


def result(response: requests.Response, status: int = 200) -> Any:
    """Of a response in the envelope: the result, or the message of an error."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json", "tapipy reads no other"
    body = response.json()
    assert body.keys() == ENVELOPE
    assert body["status"] == ("success" if status < 400 else "error")
    return body["result"] if status < 400 else body["message"]


def get(service: Service, path: str, **headers: str) -> requests.Response:
    """A GET that follows no redirect."""
    return requests.get(f"{service.url}/v3{path}", headers=headers, timeout=60, allow_redirects=False)
