"""Notes over HTTP, on a real PostgreSQL."""

from __future__ import annotations

import pytest
import requests

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.token_issuer import Issuer

from .conftest import Send


def texts(response: requests.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [note["text"] for note in response.json()["items"]]


def test_members_of_a_tenant_share_its_notes(send: Send, service: Service) -> None:
    for text in ("first", "second"):
        written = send("POST", "/notes", "ada", "hep", json={"tenant": "hep", "text": text})
        assert written.status_code == 201, written.text
    assert written.json().items() >= {"tenant": "hep", "author": "ada", "text": "second"}.items()
    assert texts(send("GET", "/notes", "ben", "hep", "bio")) == ["second", "first"]
    assert texts(send("GET", "/notes", "eve", "bio")) == []

    path = f"/notes/{written.json()['number']}"
    assert send("DELETE", path, "eve", "bio").status_code == 404
    assert send("DELETE", path, "ben", "hep").status_code == 204
    assert texts(send("GET", "/notes", "ada", "hep")) == ["first"]
    record = service.logged(event="audit", action="notes.delete", outcome="success")
    assert record.items() >= {"object": path.removeprefix("/"), "tenant": "hep", "username": "ben"}.items()


def test_cursors_walk_through_all_notes(send: Send) -> None:
    for number in range(5):
        send("POST", "/notes", "ada", "astro", json={"tenant": "astro", "text": f"note {number}"})
    notes: list[str] = []
    parameters: dict[str, str | int] = {"limit": 2}
    for _ in range(3):
        response = send("GET", "/notes", "ada", "astro", params=parameters)
        notes += texts(response)
        parameters["cursor"] = response.json()["next_cursor"]
    assert notes == [f"note {number}" for number in reversed(range(5))]
    assert parameters["cursor"] is None


def test_no_one_writes_for_another_tenant(send: Send, service: Service) -> None:
    refused = send("POST", "/notes", "eve", "bio", json={"tenant": "chem", "text": "mine now"})
    assert refused.status_code == 403
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert texts(send("GET", "/notes", "ada", "chem")) == []
    assert service.logged(event="audit", outcome="denied", tenant="chem")["username"] == "eve"


@pytest.mark.parametrize("body", [{}, {"tenant": "hep"}, {"tenant": "hep", "text": ""}, {"tenant": "hep", "txt": "a"}])
def test_wrong_notes_are_refused(send: Send, body: dict[str, str]) -> None:
    assert send("POST", "/notes", "ada", "hep", json=body).status_code == 422


def test_it_keeps_its_contract(service: Service, issuer: Issuer) -> None:
    token = issuer.token(groups=["/tenants/research"])
    check_contract(f"{service.url}/v1/openapi.json", token)
