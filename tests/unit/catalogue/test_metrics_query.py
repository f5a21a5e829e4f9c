"""The need MetricsQuery: where the site's metrics are queried, and who may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.needs import MetricsQuery
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE
from strata.catalogue.service import Service
from strata.catalogue.site_needs import query_clients
from strata.catalogue.site_services import installed, metrics_server, needed
from strata.platform.releases import releases, service_context

from ..platform.test_values import SITES, state_of


def test_services_that_declare_it_and_no_others_may_query() -> None:
    site = state_of(SITES["lab"]).site
    declared = {(service.namespace_of(site), service.name) for service, _ in needed(site, MetricsQuery)}
    assert declared
    admitted = {
        (
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"],
        )
        for peer in query_clients(site)
    }
    assert admitted == declared


def test_another_service_that_declares_it_is_admitted(with_needs: Callable[..., Service[Any]]) -> None:
    site = state_of(SITES["lab"]).site
    service = next(s for s in installed(site) if s not in [client for client, _ in needed(site, MetricsQuery)])
    before = query_clients(site)
    with_needs(service, MetricsQuery())
    (added,) = (peer for peer in query_clients(site) if peer not in before)
    assert added["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": service.name}}


def test_values_of_the_server_admit_the_clients() -> None:
    state = state_of(SITES["lab"])
    (server,) = (service for service in installed(state.site) if service.metrics_server is not None)
    (release,) = (release for release in releases(state.site) if release.name == server.name)
    assert release.values(state)["networkPolicy"]["clients"] == query_clients(state.site)
    assert server.namespace_of(state.site) == MONITORING_NAMESPACE


def test_a_site_without_a_server_provides_none(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(SITES["lab"])
    declared = [service for service, _ in needed(state.site, MetricsQuery)]
    access = service_context(declared[0], state).provide(MetricsQuery())
    assert access is not None
    assert access == metrics_server(state.site)
    without = tuple(service for service in services() if service.metrics_server is None)
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: without)
    assert service_context(declared[0], state).provide(MetricsQuery()) is None
