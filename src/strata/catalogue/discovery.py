"""Finds and loads the services: every services/<name>/service.py, as the module strata_services.<key>.service."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from strata.catalogue.service import Service
from strata.folder_packages import add_package
from strata.site.paths import REPOSITORY

PACKAGE = "strata_services"
SERVICES = REPOSITORY / "services"


@cache
def load() -> tuple[Service[Any], ...]:
    """Every service, by name; for the site model, others take `services`.

    Raises:
        TypeError: a service.py has no SERVICE.
    """
    found = []
    for file in sorted(SERVICES.glob("*/service.py")):
        service = getattr(_module(file.parent, "service"), "SERVICE", None)
        if not isinstance(service, Service):
            raise TypeError(f"{file}: SERVICE is not a strata.catalogue.service.Service")
        found.append(service)
    return tuple(found)


def command_packages() -> dict[str, tuple[str, Path]]:
    """Every services/<name>/commands/, to be imported as the module of that name: the command `strata <name>`."""
    found = {}
    for file in sorted(SERVICES.glob("*/commands/__init__.py")):
        folder = file.parent.parent
        found[folder.name] = (f"{_package_of(folder)}.commands", file)
    return found


def benchmark_modules() -> tuple[ModuleType, ...]:
    """Every services/<name>/benchmarks.py; its `BENCHMARKS` are for `scripts/bench`."""
    return tuple(_module(file.parent, "benchmarks") for file in sorted(SERVICES.glob("*/benchmarks.py")))


def _module(folder: Path, name: str) -> ModuleType:
    return importlib.import_module(f"{_package_of(folder)}.{name}")


def _package_of(folder: Path) -> str:
    """Name of a service's package, from which modules can be imported then."""
    name = f"{PACKAGE}.{folder.name.replace('-', '_')}"
    add_package(PACKAGE)
    add_package(name, folder)
    return name


def services() -> tuple[Service[Any], ...]:
    """Every service, by name."""
    importlib.import_module("strata.models")  # services import the models, which import this package
    return load()
