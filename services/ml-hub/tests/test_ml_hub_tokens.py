"""Every route of the model hub needs a token; services/http/tests tries the tokens themselves."""

from __future__ import annotations

import pytest
import requests

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
        "/authors", "/tasks", "/libraries", "/languages",
    ],
)  # fmt: skip
def test_every_route_wants_a_token(hub: Service, issuer: Issuer, path: str) -> None:
    refused = ask(hub, None, path)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="ml-hub"'
    assert ask(hub, issuer.token(), path).status_code == 200


def test_a_token_for_another_service_is_refused(hub: Service, issuer: Issuer) -> None:
    refused = ask(hub, issuer.token(aud="jupyterhub"))
    assert refused.status_code == 401
    assert "audience ml-hub" in refused.json()["detail"]


def test_probes_and_the_document_want_none(hub: Service) -> None:
    for path in ("/healthz", "/readyz", "/v3/ml-hub/openapi.json"):
        assert requests.get(hub.url + path, timeout=60).status_code == 200
