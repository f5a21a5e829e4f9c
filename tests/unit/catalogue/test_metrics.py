"""The need Metrics: who is scraped, and who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from strata.catalogue.needs import Metrics
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE, SCRAPERS, scrape_config
from strata.catalogue.site_needs import scraped_namespaces
from strata.catalogue.site_services import needed
from strata.platform.releases import releases, service_context
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

from ..platform.test_values import SITES, state_of


def within(values: Any) -> Iterator[Any]:
    """A value, and all that it holds."""
    yield values
    for value in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        yield from within(value)


def annotations_at(values: Any, path: str) -> dict[str, str]:
    for key in path.split("."):
        values = values.get(key, {})
    return dict(values)


def test_values_of_a_service_carry_its_metrics() -> None:
    state = state_of(SITES["lab"])
    declared = list(needed(state.site, Metrics))
    assert declared
    own = {release.name: release for release in releases(state.site)}
    for service, need in declared:
        access = service_context(service, state).provide(need)
        values = own[service.name].values(state)
        annotations = [annotations_at(values, path) for path in service.pod_annotations]
        assert any(access.annotations.items() <= pod_annotations.items() for pod_annotations in annotations)
        assert access.annotations["prometheus.io/port"] == str(need.port)
        assert all(client in within(values) for client in access.clients)


def test_pods_of_tenants_are_not_targets() -> None:
    site = load_site(find_site("lab"))
    assert {service.namespace_of(site) for service, _ in needed(site, Metrics)} <= set(scraped_namespaces(site))
    assert not {tenant.name for tenant in site.platform.tenants} & set(scraped_namespaces(site))
    (discovery,) = scrape_config(scraped_namespaces(site))["kubernetes_sd_configs"]
    assert discovery["namespaces"] == {"names": scraped_namespaces(site)}


def test_scrapers_are_in_a_namespace_that_no_tenant_can_have(tmp_path: Any) -> None:
    (peer,) = SCRAPERS
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": MONITORING_NAMESPACE}
    content = yaml.safe_load(SITES["lab"].read_text())
    content["platform"]["tenants"][0]["name"] = MONITORING_NAMESPACE
    for file in SITES["lab"].parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match=MONITORING_NAMESPACE):
        load_site(tmp_path / "site.yaml")
