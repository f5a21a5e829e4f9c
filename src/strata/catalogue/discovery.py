"""Finds and loads the services: every services/<name>/service.py, as the module strata_services.<key>.service."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from strata.catalogue.service import Service
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
    _package(PACKAGE, [])
    for file in sorted(SERVICES.glob("*/service.py")):
        key = file.parent.name.replace("-", "_")
        _package(f"{PACKAGE}.{key}", [str(file.parent)])
        service = getattr(importlib.import_module(f"{PACKAGE}.{key}.service"), "SERVICE", None)
        if not isinstance(service, Service):
            raise TypeError(f"{file}: SERVICE is not a strata.catalogue.service.Service")
        found.append(service)
    return tuple(found)


def command_modules() -> tuple[ModuleType, ...]:
    """Every services/<name>/commands/; the package's `register(app)` adds commands to the command line."""
    return tuple(_module(file.parent.parent, "commands") for file in sorted(SERVICES.glob("*/commands/__init__.py")))


def benchmark_modules() -> tuple[ModuleType, ...]:
    """Every services/<name>/benchmarks.py; its `BENCHMARKS` are for `scripts/bench`."""
    return tuple(_module(file.parent, "benchmarks") for file in sorted(SERVICES.glob("*/benchmarks.py")))


def _module(folder: Path, name: str) -> ModuleType:
    key = folder.name.replace("-", "_")
    _package(PACKAGE, [])
    _package(f"{PACKAGE}.{key}", [str(folder)])
    return importlib.import_module(f"{PACKAGE}.{key}.{name}")


def services() -> tuple[Service[Any], ...]:
    """Every service, by name."""
    importlib.import_module("strata.models")  # services import the models, which import this package
    return load()


def _package(name: str, path: list[str]) -> None:
    """A package whose modules are in a folder whose own name, with its dashes, is none for Python."""
    if name not in sys.modules:
        module = ModuleType(name)
        module.__path__ = path
        sys.modules[name] = module
