"""Audit records: one for each request that changes something, whatever came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service, counted
from strata_bench.token_issuer import Issuer

from .conftest import StartExample


def records(example: Service, request_id: str) -> list[dict[str, Any]]:
    example.logged(event="request", request_id=request_id)  # is written after the record
    lines = [json.loads(line) for line in example.log.rpartition("\n")[0].splitlines()]
    return [line for line in lines if line["event"] == "audit" and line["request_id"] == request_id]


def send(example: Service, request_id: str, method: str, path: str, token: str | None = None) -> int:
    headers = {"X-Request-ID": request_id} | ({"Authorization": f"Bearer {token}"} if token else {})
    return requests.request(method, f"{example.url}/v1{path}", headers=headers, timeout=60).status_code


@pytest.mark.parametrize(
    ("path", "status", "outcome"),
    [
        ("/tenants/hep/notes/7", 204, "success"),
        ("/tenants/bio/notes/8", 403, "denied"),
        ("/tenants/hep/notes/10", 404, "failure"),
    ],
)
def test_a_change_is_recorded_with_its_outcome(
    example: Service, issuer: Issuer, metrics_url: str, path: str, status: int, outcome: str
) -> None:
    token = issuer.token(preferred_username="ada", groups=["/tenants/hep"])
    assert send(example, f"change-{status}", "DELETE", path, token) == status
    (record,) = records(example, f"change-{status}")
    number, tenant = path.rpartition("/")[2], path.split("/")[2]
    expected = {"action": "notes.delete", "object": f"notes/{number}", "tenant": tenant, "outcome": outcome}
    assert record.items() >= {**expected, "username": "ada", "subject": "tester", "address": "127.0.0.1"}.items()
    assert token not in example.log
    counted(metrics_url, f'example_audit_records_total{{action="notes.delete",outcome="{outcome}"}}')


def test_a_change_that_no_route_describes_is_recorded_too(start_example: StartExample) -> None:
    with start_example({}) as example:  # other tests use up the logins
        assert send(example, "plain", "POST", "/logins?name=ada&password=secret") == 200
        (record,) = records(example, "plain")
        assert record.items() >= {"action": "POST /logins", "object": "/v1/logins", "outcome": "success"}.items()
        assert "secret" not in example.log


def test_a_refused_token_is_recorded(example: Service) -> None:
    assert send(example, "refused", "DELETE", "/tenants/hep/notes/7", "rubbish") == 401
    (record,) = records(example, "refused")
    assert (record["outcome"], record["username"]) == ("denied", None)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/caller"), ("OPTIONS", "/caller"), ("POST", "/nothing"), ("RUBBISH", "/caller")]
)
def test_what_changes_nothing_is_not_recorded(example: Service, issuer: Issuer, method: str, path: str) -> None:
    request_id = f"none-{method}"
    send(example, request_id, method, path, issuer.token())
    assert records(example, request_id) == []
