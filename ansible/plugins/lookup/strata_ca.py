"""Lookup of the site's certificate authority."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase

from strata.inventory.lookups import store

DOCUMENTATION = """
name: strata_ca
short_description: PEM of the site's certificate authority
description: The public certificate, made at first use; two, the one that signs first, while it is being replaced.
options:
  _terms: {description: Unused., required: false}
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible ships no types
    """`lookup('strata_ca')` → str."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **_: Any) -> list[str]:  # noqa: ARG002  # ansible passes terms
        """The certificate, once."""
        return [store(variables or {}).ca]
