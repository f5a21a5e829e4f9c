"""Lookup of one of the site's secrets."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase

from strata.inventory.lookups import store

DOCUMENTATION = """
name: strata_secret
short_description: A secret of the site
description: Generated at first use and kept encrypted, or read from where site.yaml declares it.
options:
  _terms: {description: Names of the secrets., required: true}
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible ships no types
    """`lookup('strata_secret', 'name')` → str."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **_: Any) -> list[str]:
        """One value per name."""
        secrets = store(variables or {})
        return [secrets.get(term) for term in terms]
