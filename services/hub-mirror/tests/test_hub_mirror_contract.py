"""The routes that the OpenAPI document has, asked with values of all kinds."""

from __future__ import annotations

from strata_bench.http_contract import check_contract

from .conftest import Mirror
from .fake_hub import FakeHub, Repo


def test_it_keeps_its_contract(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = Repo({"config.json": b"{}"})
    # GET has a route for every path, the files', which answers 404 where others have 405
    options = ("--exclude-checks=unsupported_method",)
    check_contract(f"{mirror.outside}/openapi.json", mirror.token("ada", "hep"), *options)
