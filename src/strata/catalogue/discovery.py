"""Finds and loads the services: every services/<name>/service.py."""

from __future__ import annotations

from functools import cache
from typing import Any

from strata.catalogue.service import Service
from strata.service_modules import service_folders, service_module


@cache
def services() -> tuple[Service[Any], ...]:
    """Every service, by name.

    Raises:
        TypeError: a service.py has no SERVICE.
    """
    result = []
    for folder in service_folders():
        service = getattr(service_module(folder, "service"), "SERVICE", None)
        if not isinstance(service, Service):
            raise TypeError(f"{folder / 'service.py'}: SERVICE is not a strata.catalogue.service.Service")
        result.append(service)
    return tuple(result)
