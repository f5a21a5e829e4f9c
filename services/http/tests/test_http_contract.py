"""The contract of every service on the package, and that its test finds what is wrong."""

from __future__ import annotations

import pytest

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.token_issuer import Issuer

FAILS = "/v1/numbers/{number}"


def test_the_service_keeps_its_contract(example: Service, issuer: Issuer) -> None:
    token = issuer.token(groups=["/tenants/hep"])
    check_contract(f"{example.url}/v1/openapi.json", token, f"--exclude-path={FAILS}")


def test_a_server_error_breaks_the_contract(example: Service, issuer: Issuer) -> None:
    with pytest.raises(AssertionError, match="Server error"):
        check_contract(f"{example.url}/v1/openapi.json", issuer.token(), f"--include-path={FAILS}")


def test_a_token_that_opens_nothing_shows_nothing(example: Service) -> None:
    with pytest.raises(AssertionError, match="Authentication failed"):
        check_contract(f"{example.url}/v1/openapi.json", "rubbish", "--include-path=/v1/caller")
