"""Services of the lab with needs that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.needs import Need
from strata.catalogue.service import Service

WithNeeds = Callable[..., Service[Any]]


@pytest.fixture
def with_needs(monkeypatch: pytest.MonkeyPatch) -> WithNeeds:
    """`with_needs(service, need, …)` → the service with more needs, in the catalogue in its place."""
    table = {service.name: service for service in services()}

    def add(service: Service[Any], *needs: Need[Any]) -> Service[Any]:
        before = table[service.name]
        other = replace(before, needs=lambda settings: (*before.needs(settings), *needs))
        table[service.name] = other
        monkeypatch.setattr("strata.catalogue.site_services.services", lambda: tuple(table.values()))
        return other

    return add
