"""The front page as users meet it."""

from __future__ import annotations

import pytest
import requests

from strata.catalogue.needs import Hostname
from strata.catalogue.site import needed
from strata.models import Site
from strata.verify.waiting import settled
from strata_services.portal.service import SERVICE


def test_front_page_shows_every_service_available(site: Site, http: requests.Session) -> None:
    """The front page at the site's domain lists the services, all available."""
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    url = f"https://{site.domain}/"
    page = http.get(url, timeout=30)
    assert page.status_code == 200, page.text
    titles = {need.title for _, need in needed(site, Hostname) if need.title}
    assert all(title in page.text for title in titles)

    def states() -> list[str]:  # probed every 15 s
        return [state for state, _ in http.get(f"{url}state.json", timeout=30).json()["services"]]

    available = ["up"] * len(titles)
    assert settled(states, lambda found: found == available, pause=1) == available
