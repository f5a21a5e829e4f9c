"""Users of the tenants: at the issuer, an address belongs to one user, and a user has one address."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.platform import Person
from strata.models.site import Site


def check(site: Site) -> Iterator[Finding]:
    """No address, in any case, is that of two users; no user has two addresses."""
    owners: dict[str, tuple[str, KeyPath]] = {}
    addresses: dict[str, tuple[str, KeyPath]] = {}
    for person, entry in _people(site):
        if person.email is None:
            continue
        path: KeyPath = (*entry, "email")
        address = person.email.casefold()
        name, other = owners.setdefault(address, (person.name, path))
        if name != person.name:
            yield Finding(path, f"is the address of {name}, too", "another address, or none", other=other)
        known, other = addresses.setdefault(person.name, (address, path))
        if known != address:
            fix = f"one address for {person.name} in all tenants, or another name"
            yield Finding(path, f"{person.name} has another address, too", fix, other=other)


def _people(site: Site) -> Iterator[tuple[Person, KeyPath]]:
    for number, tenant in enumerate(site.platform.tenants):
        for key in ("principal_investigators", "members"):
            for index, person in enumerate(getattr(tenant, key)):
                yield person, ("platform", "tenants", number, key, index)
