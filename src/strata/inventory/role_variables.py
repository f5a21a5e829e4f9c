"""Variables of a role, from `ansible/roles/<role>/inventory.py` beside the role itself."""

from __future__ import annotations

from strata.models.site import Site
from strata.role_modules import role_module
from strata.site.outputs import CloudOutputs

MODULE = "inventory"


def role_variables(role: str, site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Variables of the role's group: `variables(site, outputs)`; none for a role without an inventory.py.

    Args:
        role: name of its folder.
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    module = role_module(role, MODULE)
    variables: dict[str, object] = {} if module is None else module.variables(site, outputs)
    return variables


def role_host_variables(role: str, site: Site, host: str) -> dict[str, object]:
    """Variables of one host of the role's group: `host_variables(site, host)`; none for a role without that function.

    Args:
        role: name of its folder.
        site: the model.
        host: its name.
    """
    function = getattr(role_module(role, MODULE), "host_variables", None)
    variables: dict[str, object] = {} if function is None else function(site, host)
    return variables
