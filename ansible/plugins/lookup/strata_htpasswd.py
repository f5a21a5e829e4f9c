"""Lookup of a password file for the registry."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase

from strata.inventory.lookups import store
from strata.site.secrets.htpasswd import htpasswd

DOCUMENTATION = """
name: strata_htpasswd
short_description: htpasswd lines (bcrypt) of users whose passwords are secrets of the site
description: The same lines for the same passwords, so that an unchanged file stays as it is.
options:
  _terms: {description: User to the name of the secret., required: true}
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible ships no types
    """`lookup('strata_htpasswd', {'nodes': 'registry_nodes_password'})` → str."""

    def run(self, terms: list[dict[str, str]], variables: dict[str, Any] | None = None, **_: Any) -> list[str]:
        """One text per mapping."""
        secrets = store(variables or {})
        return [htpasswd({user: secrets.get(name) for user, name in term.items()}) for term in terms]
