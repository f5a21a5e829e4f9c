"""What Ansible's lookup plugins share."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata.errors import UserError
from strata.site.secrets import SecretStore
from strata.site_file.loader import load_site


@functools.cache
def _store(site_file: str) -> SecretStore:
    site = load_site(Path(site_file))
    return SecretStore.open(site.name, site.secrets)


def store(variables: Mapping[str, Any]) -> SecretStore:
    """The secret store of the site that the inventory belongs to.

    Args:
        variables: Ansible's; the inventory plugin sets `strata_site_file`.

    Raises:
        UserError: the inventory is not a site file.
    """
    site_file = variables.get("strata_site_file")
    if not site_file:
        raise UserError(
            "the variable strata_site_file is not set",
            fix="use a site file as the inventory: -i inventories/<site>/site.yaml",
        )
    return _store(str(site_file))
