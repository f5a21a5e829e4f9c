"""The Pods API, as clients see it: from outside, over TLS, at the API's name."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests

from strata.catalogue.published import api_url
from strata.models.site import Site
from strata.verify.api import Api, envelope
from strata.verify.pods import Kubectl
from strata.verify.waiting import settled
from strata_services.tapis_pods.service import AUDIENCE, SERVICE
from strata_services.tapis_pods.settings import Pods


@pytest.fixture(scope="module")
def settings(site: Site) -> Pods:
    """The entry of the Pods API in site.yaml."""
    section = SERVICE.of(site)
    if section is None:
        pytest.skip(f"site {site.name} has no platform.services.tapis_pods")
    return section


@pytest.fixture(scope="module")
def api(site: Site, settings: Pods, http: requests.Session) -> Api:
    """The API."""
    assert settings
    return Api(http, api_url(site))


PATHS = ("/v3/pods", "/v3/pods/volumes", "/v3/pods/snapshots")


def test_pods_need_a_token(api: Api) -> None:
    """The Pods API refuses a request without a token, in Tapis' envelope, also for volumes and snapshots."""
    for path in PATHS:
        assert "token" in envelope(api.get(path), 401)["message"]


def test_a_caller_without_pods_sees_none(api: Api, issuer_token: Callable[[str], str]) -> None:
    """The Pods API shows no pod, volume or snapshot of others to a caller without a tenant."""
    for path in PATHS:
        assert envelope(api.get(path, issuer_token(AUDIENCE.name)))["result"] == []


def test_a_name_without_a_pod_shows_that(site: Site, settings: Pods, http: requests.Session) -> None:
    """A name below that of the pods which no pod has responds 404 with a page of the Pods API."""
    if site.platform.ingress.certificate.source == "acme":
        pytest.skip("a name without a pod has no certificate where each name gets its own")
    # two hyphens: no pod can have it
    answer = http.get(f"https://no-pod-x.{settings.hostname}.{site.domain}/", timeout=30)
    assert (answer.status_code, "no pod with this name" in answer.text) == (404, True)


def test_all_parts_run(kubectl: Kubectl, settings: Pods, site: Site) -> None:
    """The Pods API has as many ready pods as site.yaml sets, and one ready pod each of the reconciler and for files."""
    options = ("--namespace", SERVICE.namespace_of(site), "--output", "json")

    def ready() -> list[int]:
        names = (SERVICE.name, f"{SERVICE.name}-reconciler", f"{SERVICE.name}-files")
        deployments = [json.loads(kubectl("get", "deployment", name, *options)) for name in names]
        return [int(deployment["status"].get("readyReplicas", 0)) for deployment in deployments]

    assert settled(ready, lambda counts: counts == [settings.replicas, 1, 1]) == [settings.replicas, 1, 1]
