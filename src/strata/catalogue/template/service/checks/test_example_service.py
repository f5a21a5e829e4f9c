"""example-service as its users meet it."""

from __future__ import annotations

import pytest
import requests

from strata.models import Site
from strata_services.example_service.service import SERVICE


def test_example_service_greets(site: Site, http: requests.Session) -> None:
    """example-service responds at its own name over TLS."""
    settings = SERVICE.of(site)
    if settings is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    response = http.get(f"https://{settings.hostname}.{site.domain}/", timeout=30)
    assert response.status_code == 200, response.text
    assert response.json() == {"message": "Hello from example-service"}
