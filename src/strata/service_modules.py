"""What the folder of a service adds to Strata in Python: modules strata_services.<key>.<name>, found by being there.

`service.py`: `SERVICE`, its declaration. `settings.py`: `SECTION`, the model of the service's section below
`platform.services:`. `commands/`: the command `strata <name>`. `benchmarks.py`: `BENCHMARKS`, for `scripts/bench`.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from strata.folder_packages import add_package
from strata.site.paths import REPOSITORY

if TYPE_CHECKING:
    from pydantic import BaseModel  # loading it takes longer than `strata --help` may

PACKAGE = "strata_services"
SERVICES = REPOSITORY / "services"


@cache
def service_folders() -> tuple[Path, ...]:
    """The folder of each service, by name."""
    return tuple(file.parent for file in sorted(SERVICES.glob("*/service.py")))


def service_key(name: str) -> str:
    """A service below `platform.services` of a site file, and its package in `strata_services`.

    Args:
        name: of its folder.
    """
    return name.replace("-", "_")


def service_module(folder: Path, name: str) -> ModuleType:
    """A module of a service.

    Raises:
        ModuleNotFoundError: its folder has none of that name.
    """
    return importlib.import_module(f"{_package_of(folder)}.{name}")


def service_section(folder: Path) -> type[BaseModel]:
    """The model of what a site file sets of a service; its docstring describes the service in one sentence.

    Raises:
        ModuleNotFoundError: the service has no settings.py.
        AttributeError: its settings.py has no `SECTION`.
    """
    section: type[BaseModel] = service_module(folder, "settings").SECTION
    return section


def command_packages() -> dict[str, tuple[str, Path]]:
    """Every services/<name>/commands/, to be imported as the module of that name: the command `strata <name>`."""
    packages = {}
    for file in sorted(SERVICES.glob("*/commands/__init__.py")):
        folder = file.parent.parent
        packages[folder.name] = (f"{_package_of(folder)}.commands", file)
    return packages


def benchmark_modules() -> tuple[ModuleType, ...]:
    """Every services/<name>/benchmarks.py."""
    return tuple(service_module(file.parent, "benchmarks") for file in sorted(SERVICES.glob("*/benchmarks.py")))


def _package_of(folder: Path) -> str:
    """Name of a service's package, from which modules can be imported then."""
    name = f"{PACKAGE}.{service_key(folder.name)}"
    add_package(PACKAGE)
    add_package(name, folder)
    return name
