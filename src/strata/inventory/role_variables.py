"""Variables of a role: `variables(site, outputs)` of `ansible/roles/<role>/inventory.py`, beside the role itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache

from strata.models import Site
from strata.roles import DIRECTORY
from strata.site.outputs import CloudOutputs

FILE = "inventory.py"
Variables = Callable[[Site, CloudOutputs | None], dict[str, object]]


@cache
def _function(role: str) -> Variables | None:
    file = DIRECTORY / role / FILE
    spec = importlib.util.spec_from_file_location(f"strata.inventory.role_{role}", file)
    if spec is None or spec.loader is None or not file.exists():
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Variables = module.variables
    return found


def role_variables(role: str, site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """What the role is given for a site; nothing for a role without an inventory.py.

    Args:
        role: name of its folder.
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    function = _function(role)
    return {} if function is None else function(site, outputs)
