"""The authenticator answers as its OpenAPI document states."""

from __future__ import annotations

from strata_bench.http_contract import check_contract
from strata_bench.token_issuer import Issuer

from .conftest import Login, StartAuthenticator


def test_the_authenticator_keeps_its_contract(start_authenticator: StartAuthenticator, login: Login) -> None:
    issuer: Issuer = login.issuer
    with start_authenticator() as service:
        check_contract(f"{service.url}/v3/oauth2/openapi.json", issuer.token())
