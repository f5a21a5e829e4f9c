"""What the folders of services and roles import of Strata: no layer above the one that reads them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.role_modules import PACKAGE as ROLE_PACKAGE
from strata.roles import DIRECTORY
from strata.service_modules import PACKAGE as SERVICE_PACKAGE
from strata.service_modules import service_folders, service_key
from strata.site.paths import REPOSITORY

READERS = {
    "settings.py": "strata.models",
    "site_checks.py": "strata.site_file",
    "service.py": "strata.catalogue",
    "inventory.py": "strata.inventory",
}
"""File of a folder, and the layer that reads it; what the file imports of its folder is read with it."""
EXCEPTIONS = {("job-queues/values.py", "strata.toolchain")}
"""Modules that import a layer above it, each with its reason on the line."""


def layers() -> dict[str, int]:
    """Packages and modules by the row that import-linter's contract gives them; the lowest is 0."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip(): height for height, row in enumerate(reversed(rows)) for name in row.split("|")}


def height_of(module: str, heights: dict[str, int]) -> int:
    """The row of a module, by the longest of its parents that has one.

    Raises:
        KeyError: none has one.
    """
    while module not in heights:
        module, dot, _ = module.rpartition(".")
        if not dot:
            raise KeyError(module)
    return heights[module]


def folders() -> list[Path]:
    """Folders of services and roles."""
    return [*service_folders(), *sorted(file.parent for file in DIRECTORY.glob("*/role.yaml"))]


def imports(file: Path) -> Iterator[str]:
    """Modules and names that a file imports, inside functions too, with their full names."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from (f".{node.module}" if node.module else f".{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_of_folders() -> dict[str, Path]:
    """Every module of a folder, by the name that others import it by."""
    modules: dict[str, Path] = {}
    for folder in folders():
        service = folder.parent != DIRECTORY
        package = f"{SERVICE_PACKAGE}.{service_key(folder.name)}" if service else f"{ROLE_PACKAGE}.{folder.name}"
        modules |= {f"{package}.{file.stem}": file for file in folder.glob("*.py")}
    return modules


def reached(file: Path) -> Iterator[tuple[Path, str]]:
    """What a file and the modules that it loads of services' and roles' folders import of Strata."""
    modules, waiting, seen = files_of_folders(), [file], {file}
    while waiting:
        here = waiting.pop()
        for name in imports(here):
            if name.startswith("."):
                other = here.parent / f"{name.lstrip('.').partition('.')[0]}.py"
            else:
                other = modules.get(name) or modules.get(name.rpartition(".")[0]) or here
            if other not in seen and other.exists():
                seen.add(other)
                waiting.append(other)
            if name.partition(".")[0] in ("strata", "strata_lab", "strata_bench"):
                yield here, name


@pytest.mark.parametrize("read", READERS)
def test_folders_import_no_layer_above_the_one_that_reads_them(read: str) -> None:
    heights = layers()
    files = [folder / read for folder in folders() if (folder / read).exists()]
    assert files
    above = {
        f"{here.relative_to(REPOSITORY)} imports {name}"
        for file in files
        for here, name in reached(file)
        if height_of(name, heights) > heights[READERS[read]]
        and not any(str(here).endswith(end) and name.startswith(layer) for end, layer in EXCEPTIONS)
    }
    assert above == set()
