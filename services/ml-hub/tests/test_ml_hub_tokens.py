"""Every route of the model hub needs a token; services/http/tests tries the tokens themselves."""

from __future__ import annotations

import re

import pytest
import requests

from strata.verify.api import envelope
from strata_bench.service_processes import Service
from strata_bench.token_issuer import Issuer


def ask(hub: Service, token: str | None, path: str = "/models?limit=1") -> requests.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return requests.get(f"{hub.url}/v3/ml-hub{path}", headers=headers, timeout=60)


@pytest.mark.parametrize(
    "path",
    [
        "/models", "/models/google/flan-t5-large", "/models/authors/google", "/models/search/t5",
        "/models/tasks/fill-mask", "/models/trained_datasets/c4", "/models/libraries/timm", "/models/languages/en",
        "/models/google/flan-t5-large/inference", "/search/t5/models", "/download_model/google/flan-t5-large",
        "/model_card/google/flan-t5-large", "/datasets", "/datasets/openai/gsm8k", "/datasets/authors/openai",
        "/datasets/search/squad", "/datasets/tasks/summarization", "/datasets/languages/fi",
        "/datasets/size_categories/1K<n<10K", "/datasets/size-categories/1K<n<10K", "/download_dataset/openai/gsm8k",
        "/dataset_card/openai/gsm8k", "/authors", "/tasks", "/libraries", "/languages",
    ],
)  # fmt: skip
def test_every_route_wants_a_token(hub: Service, issuer: Issuer, path: str) -> None:
    refused = ask(hub, None, path)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="ml-hub"'
    assert envelope(refused, 401)["result"] is None
    # the lab has no hub, and no inference server
    expected = 404 if {"inference", "download", "card"} & set(re.split("[/_]", path)) else 200
    assert ask(hub, issuer.token(), path).status_code == expected


def test_the_header_of_tapis_clients_holds_the_token_too(hub: Service, issuer: Issuer) -> None:
    headers = {"X-Tapis-Token": issuer.token()}
    response = requests.get(f"{hub.url}/v3/ml-hub/datasets", headers=headers, params={"limit": 1}, timeout=60)
    assert len(envelope(response)["result"]) == 1


def test_a_token_for_another_service_is_refused(hub: Service, issuer: Issuer) -> None:
    refused = ask(hub, issuer.token(aud="jupyterhub"))
    assert refused.status_code == 401
    assert "audience ml-hub" in refused.json()["message"]


def test_probes_and_the_document_want_none(hub: Service) -> None:
    for path in ("/healthz", "/readyz", "/v3/ml-hub/openapi.json"):
        assert requests.get(hub.url + path, timeout=60).status_code == 200
