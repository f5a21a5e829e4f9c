"""example-service as its users meet it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import requests

from strata.models.site import Site
from strata.verify.api import Api
from strata_services.example_service.service import AUDIENCE, SERVICE

NOTES = "/v1/notes"


@pytest.fixture(scope="module")
def service(site: Site, http: requests.Session) -> Api:
    """The service at its name."""
    settings = SERVICE.of(site)
    if settings is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    return Api(http, f"https://{settings.hostname}.{site.domain}")


def test_example_service_is_ready(service: Api) -> None:
    """example-service responds over TLS, with its database, and refuses a request without a token."""
    assert service.get("/readyz").json() == {"status": "ok"}
    assert service.get(NOTES).status_code == 401


def test_example_service_lists_notes(service: Api, issuer_token: Callable[[str], str]) -> None:
    """example-service lists notes for a token of the site's issuer, and none of a tenant without the caller."""
    response = service.get(NOTES, issuer_token(AUDIENCE.name), limit=1)
    assert response.status_code == 200, response.text
    assert response.json() == {"items": [], "next_cursor": None}
