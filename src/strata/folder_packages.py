"""Packages whose modules are in folders of the repository that Python would not import by their own names."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


def add_package(name: str, *folders: Path) -> None:
    """Makes a package known; later calls with the same name change nothing.

    Args:
        name: of the package, with those of its parents.
        folders: with its modules.
    """
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder) for folder in folders]
        sys.modules[name] = package
