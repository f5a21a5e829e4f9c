"""The front page as users meet it."""

from __future__ import annotations

import re

import pytest
import requests

from strata.catalogue.site_services import installed, issuer
from strata.models.site import Site
from strata.verify.waiting import settled
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.portal.service import SERVICE

NAMES = {
    "authenticator": ("Access tokens", "Programs (API)"),
    "dask_gateway": ("Dask clusters",),
    "htcondor": ("Batch jobs",),
    "hub_mirror": ("Hugging Face Hub",),
    "inference": ("Models",),
    "jupyterhub": ("Notebooks",),
    "keycloak": ("Your account",),
    "ml_hub": ("Models and datasets", "Models (API)"),
    "object_storage": ("Object storage",),
    "tapis_pods": ("Containers", "Containers (API)"),
}
"""Of services that users can use, by key."""


def test_front_page_shows_every_service_available(site: Site, http: requests.Session) -> None:
    """The front page at the site's domain lists every service that users can use, all available."""
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    url = f"https://{site.domain}/"
    page = http.get(url, timeout=30)
    assert page.status_code == 200, page.text
    expected = {name for service in installed(site) for name in NAMES.get(service.key, ())}
    accounting = ACCOUNTING.of(site)
    if accounting is not None and accounting.measurements:
        expected.add("Measurements")
    if site.cluster is not None and issuer(site) is not None:
        expected.add("Kubernetes")
    assert set(re.findall(r'<li class="card"><h3>(?:<a [^>]*>)?([^<]+)<', page.text)) == expected

    def states() -> list[str]:
        return [state for state, _ in http.get(f"{url}state.json", timeout=30).json()["services"]]

    available = ["up"] * page.text.count('class="state"')
    assert settled(states, lambda shown: shown == available, pause=1) == available
