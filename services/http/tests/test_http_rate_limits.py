"""Limits on requests: of a caller, of an address, of a name."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service, counted
from strata_bench.services import free_port
from strata_bench.token_issuer import Issuer

from .conftest import RunExample, StartExample


def assert_refused(response: requests.Response, limit: str, seconds: int) -> None:
    assert response.status_code == 429, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert limit in problem["detail"]
    assert 1 <= int(response.headers["Retry-After"]) <= seconds


def test_each_caller_has_a_limit_of_its_own_on_each_route(start_example: StartExample, issuer: Issuer) -> None:
    port = free_port()
    with start_example({"EXAMPLE_RATE_LIMIT": "2/hour", "EXAMPLE_METRICS_PORT": str(port)}) as example:

        def get(subject: str, path: str) -> requests.Response:
            headers = {"Authorization": f"Bearer {issuer.token(sub=subject)}"}
            return requests.get(f"{example.url}/v1/{path}", headers=headers, timeout=60)

        assert [get("ada", "caller").status_code for _ in range(2)] == [200, 200]
        assert_refused(get("ada", "caller"), "2 per 1 hour", 3600)
        assert get("ada", "numbers/1").status_code == 200
        assert get("ada", "numbers/2").status_code == 200
        # one route, whatever its parameters are
        assert_refused(get("ada", "numbers/3"), "2 per 1 hour", 3600)
        assert get("ben", "caller").status_code == 200
        assert requests.get(f"{example.url}/healthz", timeout=60).status_code == 200
        counted(
            f"http://127.0.0.1:{port}/metrics",
            'example_http_requests_total{method="GET",route="/caller",status="429"} 1.0',
        )


def log_in(service: Service, name: str, forwarded: str | None) -> requests.Response:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return requests.post(f"{service.url}/v1/logins", params={"name": name}, headers=headers, timeout=60)


def test_without_a_proxy_no_header_gives_another_address(start_example: StartExample) -> None:
    with start_example({}) as example:
        responses = [log_in(example, f"user-{number}", f"192.0.2.{number}") for number in range(4)]
        assert [(response.status_code, response.json()) for response in responses[:3]] == [(200, "127.0.0.1")] * 3
        assert_refused(responses[3], "3 per 1 hour", 3600)


def test_behind_a_proxy_its_own_word_counts(start_example: StartExample) -> None:
    with start_example({"EXAMPLE_TRUSTED_PROXIES": "1"}) as example:
        # what comes before the last entry was sent by the client
        responses = [log_in(example, f"user-{number}", f"192.0.2.{number}, 198.51.100.7") for number in range(4)]
        assert [(response.status_code, response.json()) for response in responses[:3]] == [(200, "198.51.100.7")] * 3
        assert_refused(responses[3], "3 per 1 hour", 3600)
        assert log_in(example, "ada", "198.51.100.8").json() == "198.51.100.8"
        # one client may use all of an IPv6 network of its own
        responses = [log_in(example, f"user6-{number}", f"2001:db8:1:2::{number}") for number in range(4)]
        assert_refused(responses[3], "3 per 1 hour", 3600)
        assert log_in(example, "ben", "2001:db8:1:3::1").json() == "2001:db8:1:3::1"
        assert log_in(example, "eve", "no address").json() == "unknown"
        assert log_in(example, "eve", None).json() == "unknown"


def test_a_name_is_limited_from_whatever_addresses(start_example: StartExample) -> None:
    with start_example({"EXAMPLE_TRUSTED_PROXIES": "1"}) as example:
        responses = [log_in(example, "ada", f"192.0.2.{number}") for number in range(3)]
        assert [response.status_code for response in responses[:2]] == [200, 200]
        assert_refused(responses[2], "2 per 1 hour", 3600)


@pytest.mark.parametrize("limit", ["", "many", "3/fortnight", "-1/minute"])
def test_a_wrong_limit_is_named(run_example: RunExample, database: dict[str, str], limit: str) -> None:
    settings = {"EXAMPLE_ISSUER": "https://login.example.org", "EXAMPLE_RATE_LIMIT": limit}
    done = run_example({**database, **settings}, "serve")
    assert done.returncode == 2
    assert "EXAMPLE_RATE_LIMIT: " in done.stderr
    assert "such as 3000/minute" in done.stderr
