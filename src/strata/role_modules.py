"""What the folder of a role adds to Strata in Python: modules strata_roles.<role>.<name>, found by being there.

`settings.py`: `SECTION`, the model of the role's section below `hosts:`. `site_checks.py`: `check(site)`, findings.
`inventory.py`: `variables(site, outputs)`. `checks/test_*.py`: checks of `strata verify`.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from strata.folder_packages import add_package
from strata.roles import DIRECTORY

PACKAGE = "strata_roles"


@cache
def role_module(role: str, name: str) -> ModuleType | None:
    """A module of a role; None if its folder has none of that name."""
    if not (DIRECTORY / role / f"{name}.py").is_file():
        return None
    return importlib.import_module(f"{PACKAGE}.{role}.{name}")


def checks_folder(role: str) -> Path:
    """Where a role's checks of `strata verify` are, if it has some of its own."""
    return DIRECTORY / role / "checks"


add_package(PACKAGE, DIRECTORY)
