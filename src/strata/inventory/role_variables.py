"""Variables of a role, from `ansible/roles/<role>/inventory.py` beside the role itself."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

from strata.models import Site
from strata.roles import DIRECTORY
from strata.site.outputs import CloudOutputs

FILE = "inventory.py"


@cache
def _module(role: str) -> ModuleType | None:
    file = DIRECTORY / role / FILE
    spec = importlib.util.spec_from_file_location(f"strata.inventory.role_{role}", file)
    if spec is None or spec.loader is None or not file.exists():
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def role_variables(role: str, site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Variables of the role's group: `variables(site, outputs)`; none for a role without an inventory.py.

    Args:
        role: name of its folder.
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    module = _module(role)
    found: dict[str, object] = {} if module is None else module.variables(site, outputs)
    return found


def role_host_variables(role: str, site: Site, host: str) -> dict[str, object]:
    """Variables of one host of the role's group: `host_variables(site, host)`; none for a role without that function.

    Args:
        role: name of its folder.
        site: the model.
        host: its name.
    """
    function = getattr(_module(role), "host_variables", None)
    found: dict[str, object] = {} if function is None else function(site, host)
    return found
