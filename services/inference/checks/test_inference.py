"""Inference as its users meet it: from outside, with tokens of the site."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import requests

from strata.catalogue.published import api_url
from strata.models.site import Site
from strata.verify.api import Api, envelope
from strata_services.inference.service import AUDIENCE, SERVICE
from strata_services.inference.settings import Inference


@pytest.fixture(scope="module")
def settings(site: Site) -> Inference:
    """The entry of inference in site.yaml."""
    section = SERVICE.of(site)
    if section is None:
        pytest.skip(f"site {site.name} has no platform.services.inference")
    return section


@pytest.fixture(scope="module")
def service(site: Site, settings: Inference, http: requests.Session) -> Api:
    """The service at its name."""
    return Api(http, f"https://{settings.hostname}.{site.domain}")


@pytest.fixture(scope="module")
def token(service: Api, issuer_token: Callable[[str], str]) -> str:
    """A token that the service must accept."""
    assert service
    return issuer_token(AUDIENCE.name)


@pytest.mark.parametrize("path", ["/v1/models", "/v3/ml-hub/inference"])
def test_inference_needs_a_token(service: Api, path: str) -> None:
    """Inference refuses a request without a token, in Tapis' envelope."""
    assert "token" in envelope(service.get(path), 401)["message"]


def test_inference_lists_models_of_the_caller_s_tenants(
    service: Api, settings: Inference, site: Site, token: str, http: requests.Session
) -> None:
    """Inference lists the same models by OpenAI's API and, at both names, by ML Hub's."""
    listed = {model["id"] for model in service.get("/v1/models", token).json()["data"]}
    assert listed <= {model.id for model in settings.models}
    for api in (service, Api(http, api_url(site))):
        result = envelope(api.get("/v3/ml-hub/inference", token))["result"]
        assert set(result["available_models"]) == listed


def test_inference_hides_other_models(service: Api, settings: Inference, token: str, http: requests.Session) -> None:
    """Inference returns 404 for a model of other tenants and for one that does not exist."""
    listed = {model["id"] for model in service.get("/v1/models", token).json()["data"]}
    headers = {"Authorization": f"Bearer {token}"}
    for name in ("nobody/has-this", *(model.id for model in settings.models if model.id not in listed)):
        body = {"model": name, "prompt": "hello"}
        envelope(http.post(f"{service.url}/v1/completions", json=body, headers=headers, timeout=60), 404)


def test_running_models_respond(service: Api, token: str, http: requests.Session) -> None:
    """Each model that runs completes a prompt; models that are stopped remain stopped."""
    result = envelope(service.get("/v3/ml-hub/inference", token))["result"]
    running = [model["model_id"] for model in result["models"] if model["state"] == "ready"]
    if not running:
        pytest.skip("no model of the caller's tenants runs now")
    headers = {"Authorization": f"Bearer {token}"}
    for name in running:
        body = {"model": name, "prompt": "hello", "max_tokens": 4}
        answer = http.post(f"{service.url}/v1/completions", json=body, headers=headers, timeout=150)
        # a model for classification or embeddings refuses a completion, with the reason
        assert answer.status_code in (200, 400), answer.text
