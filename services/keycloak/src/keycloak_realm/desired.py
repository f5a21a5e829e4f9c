"""What Strata wants of a realm: the file `site.json` of the service's Secret."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Client:
    """A confidential client, or with an empty secret a public one.

    Args:
        id: the client id.
        secret: of the client.
        audiences: that all its tokens are for.
        optional_audiences: that its tokens are for where the request names their scope.
        redirect_urls: where browsers are sent after a login; empty: no logins.
        logout_urls: where browsers are sent after a logout.
        service_account: whether it gets tokens of its own.
        device: whether people log in with a code on another device.
        passwords: whether it passes on people's names and passwords.
        offline: whether its logins may ask for refresh tokens that outlive them.
    """

    id: str
    secret: str = field(repr=False)
    audiences: tuple[str, ...] = ()
    optional_audiences: tuple[str, ...] = ()
    redirect_urls: tuple[str, ...] = ()
    logout_urls: tuple[str, ...] = ()
    service_account: bool = False
    device: bool = False
    passwords: bool = False
    offline: bool = False

    @property
    def has_logins(self) -> bool:
        """Whether its tokens are people's."""
        return bool(self.redirect_urls) or self.device or self.passwords


@dataclass(frozen=True)
class Person:
    """A user that the site file names."""

    name: str
    email: str = ""


@dataclass(frozen=True)
class Tenant:
    """A group of users, and in it the group of those who administer it."""

    name: str
    members: tuple[Person, ...] = ()
    administrators: tuple[Person, ...] = ()


@dataclass(frozen=True)
class Desired:
    """A realm.

    Args:
        realm: its name.
        title: name of the site, shown on its pages and in Tapis' claims.
        clients: that Strata keeps; others are left alone.
        tenants: of the site.
        signing_keys: PEM of the private key that signs tokens, and of the one before, whose tokens hold to their end.
    """

    realm: str
    title: str
    clients: tuple[Client, ...]
    tenants: tuple[Tenant, ...]
    signing_keys: tuple[str, ...]

    @property
    def audiences(self) -> tuple[str, ...]:
        """All audiences of the clients."""
        return tuple(sorted({name for client in self.clients for name in client.audiences + client.optional_audiences}))

    @property
    def people(self) -> dict[str, Person]:
        """By name; who is in two tenants has the address that is named."""
        by_name: dict[str, Person] = {}
        for tenant in self.tenants:
            for person in tenant.members + tenant.administrators:
                if person.email or person.name not in by_name:
                    by_name[person.name] = person
        return by_name


def _client(entry: dict[str, Any]) -> Client:
    return Client(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def load(file: Path, signing_keys: tuple[str, ...]) -> Desired:
    """Reads the file."""
    content = json.loads(file.read_text())

    def people(entries: list[dict[str, str]]) -> tuple[Person, ...]:
        return tuple(Person(**entry) for entry in entries)

    clients = tuple(_client(entry) for entry in content["clients"])
    tenants = tuple(
        Tenant(entry["name"], people(entry["members"]), people(entry["administrators"])) for entry in content["tenants"]
    )
    return Desired(content["realm"], content["title"], clients, tenants, signing_keys)
