"""Services that share the API's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.needs import ApiPath
from strata.catalogue.needs.hostname import Hostname
from strata.catalogue.published import api_url, published
from strata.site_file.checks import names
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

PODS = ApiPath(health_path="/v3/pods/openapi.json", paths=("/v3/pods",))


def test_two_services_share_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs(settings: Any) -> tuple[Any, ...]:
        return (PODS, *(need for need in own(settings) if not isinstance(need, Hostname)))

    (hub,) = (service for service in services() if service.key == "ml_hub")
    own = hub.needs
    table = tuple(replace(service, needs=needs) if service is hub else service for service in services())
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: table)
    site = load_site(find_site("lab"))
    by_key = {service.key: service for service in published(site)}
    assert by_key["ml_hub"].host == by_key["authenticator"].host == "api.lab.strata.test"
    assert by_key["ml_hub"].url == "https://api.lab.strata.test/v3/pods"
    assert by_key["ml_hub"].health_url == "https://api.lab.strata.test/v3/pods/openapi.json"
    assert api_url(site) == "https://api.lab.strata.test"
    assert list(names.check(site)) == [], "a shared name is not a duplicate"


@pytest.mark.parametrize("paths", [(), ("v3",), ("/v3/",)])
def test_wrong_paths_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="paths begin with a slash"):
        ApiPath(paths=paths)


def test_paths_and_health_paths_are_one_services_own() -> None:
    """Two services with one path would answer by turns."""
    owners: dict[str, str] = {}
    for service in services():
        try:
            needs = service.needs(service.section())
        except ValueError:
            continue  # its settings have no defaults
        for need in needs:
            if isinstance(need, ApiPath):
                assert any(Path(need.health_path).is_relative_to(path) for path in need.paths), service.name
                for path in need.paths:
                    assert owners.setdefault(path, service.name) == service.name, path
    assert owners["/v3/tenants"] == "authenticator"
