"""The model hub answers as its OpenAPI document states."""

from __future__ import annotations

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.token_issuer import Issuer


def test_the_hub_keeps_its_contract(hub: Service, issuer: Issuer) -> None:
    check_contract(f"{hub.url}/v3/ml-hub/openapi.json", issuer.token())
