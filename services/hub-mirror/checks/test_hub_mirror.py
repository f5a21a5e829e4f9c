"""hub-mirror as its users meet it: huggingface_hub outside of the cluster, with tokens of the site."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests

from strata.models.site import Site
from strata.verify.api import Api
from strata.verify.pods import Kubectl, running_pods
from strata.verify.waiting import settled
from strata_services.hub_mirror.service import AUDIENCE, SERVICE

READ_INSIDE = """
import json, sys, urllib.error, urllib.request
def status(path):
    try:
        return urllib.request.urlopen('http://127.0.0.1:8081' + path, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([status(path) for path in sys.argv[1:]]))
"""
READ_METRICS = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9464/metrics').read().decode())"


@pytest.fixture(scope="module")
def service(site: Site, http: requests.Session) -> Api:
    """The service at its name."""
    settings = SERVICE.of(site)
    if settings is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    return Api(http, f"https://{settings.hostname}.{site.domain}")


@pytest.fixture(scope="module")
def token(service: Api, issuer_token: Callable[[str], str]) -> str:
    """A token that the mirror must accept."""
    assert service
    return issuer_token(AUDIENCE.name)


def test_hub_mirror_is_ready(service: Api) -> None:
    """The mirror of the Hugging Face Hub responds over TLS, with its database."""
    assert service.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/api/models", "/api/whoami-v2", "/gpt2/resolve/main/config.json"])
def test_hub_mirror_refuses_without_a_token(service: Api, path: str) -> None:
    """The mirror of the Hugging Face Hub returns 401 from outside for a request without a token of the site."""
    for response in (service.get(path), service.get(path, "hf_none")):
        assert response.status_code == 401, response.text
        assert response.headers["WWW-Authenticate"].startswith('Bearer realm="hub-mirror"')


def test_hub_mirror_knows_the_caller(service: Api, token: str) -> None:
    """The mirror of the Hugging Face Hub shows huggingface_hub the user of a token."""
    response = service.get("/api/whoami-v2", token)
    assert response.status_code == 200, response.text
    assert response.json()["type"] == "user"


def test_hub_mirror_serves_pods_without_a_token(service: Api, kubectl: Kubectl, site: Site) -> None:
    """The mirror of the Hugging Face Hub lists repositories for pods at a port of their own."""
    assert service
    namespace = SERVICE.namespace_of(site)
    pod = running_pods(kubectl, SERVICE.name, namespace)[0]["metadata"]["name"]
    command = ("exec", pod, f"--namespace={namespace}", "--container=serve", "--", "python3", "-c", READ_INSIDE)
    statuses = json.loads(kubectl(*command, "/api/models?author=nobody-has-this", "/api/whoami-v2"))
    # 504: the upstream is away, and the list was never asked for
    assert statuses[0] in (200, 504)
    assert statuses[1] == 401


def test_hub_mirror_counts(service: Api, kubectl: Kubectl, site: Site) -> None:
    """The mirror of the Hugging Face Hub reports its cache, at a port that is not reachable from outside."""
    assert service.get("/metrics").status_code == 401
    namespace = SERVICE.namespace_of(site)

    def metrics() -> str:
        pod = running_pods(kubectl, SERVICE.name, namespace)[0]["metadata"]["name"]
        command = ("exec", pod, f"--namespace={namespace}", "--container=serve", "--", "python3", "-c", READ_METRICS)
        return kubectl(*command)

    names = ("hub_mirror_cache_bytes", "hub_mirror_cache_limit_bytes", "hub_mirror_fetched_bytes_total")
    text = settled(metrics, lambda text: all(name in text for name in names))
    assert [name for name in names if name not in text] == []
