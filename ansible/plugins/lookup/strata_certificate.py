"""Lookup of a certificate that the site's authority signed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.plugins.lookup import LookupBase

from strata.inventory.lookups import store

DOCUMENTATION = """
name: strata_certificate
short_description: A certificate signed by the site's authority
description: Issued at first use; reissued when its names change or it is about to expire.
options:
  _terms: {description: Names of the certificates., required: true}
  dns_names: {description: Subject alternative names., type: list, elements: str, default: []}
  ip_addresses: {description: Addresses as subject alternative names., type: list, elements: str, default: []}
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible ships no types
    """`lookup('strata_certificate', 'name', dns_names=[…])` → {certificate, private_key, ca}, PEM."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, str]]:
        """One mapping per name."""
        self.set_options(var_options=variables, direct=kwargs)
        secrets = store(variables or {})
        dns_names, addresses = self.get_option("dns_names"), self.get_option("ip_addresses")
        return [asdict(secrets.certificate(term, dns_names, addresses)) for term in terms]
