"""A database of the site's PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, SecretReference, role_findings
from strata.catalogue.service import ServiceContext, Values
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata.roles import port

PORT = port("postgresql")
KINE_DATABASE = "kine"


@dataclass(frozen=True)
class DatabaseAccess:
    """How pods reach a database.

    Args:
        host: address of the server, which its certificate has.
        port: TCP port; TLS only.
        name: of the database, and of the role that owns it.
        password: of that role.
        ca: PEM of the authority that signed the server's certificate.
    """

    host: str
    port: int
    name: str
    password: SecretReference
    ca: str

    @property
    def values(self) -> Values:
        """All but the password, as the charts take it."""
        return {"host": self.host, "port": self.port, "name": self.name, "user": self.name, "ca": self.ca}


@dataclass(frozen=True)
class Database(Need[DatabaseAccess]):
    """A database with an owner of the same name and a generated password.

    Args:
        name: lower-case letters, digits and underscores.
    """

    name: str

    @property
    def secret(self) -> str:
        """Name of the site's secret with the owner's password."""
        return f"{self.name}_database_password"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs a PostgreSQL server."""
        return role_findings(site, key, "postgresql", f"for its database {self.name}")

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The owner's password."""
        return {self.secret: context.secrets.get(self.secret)}

    def provide(self, context: ServiceContext[Any]) -> DatabaseAccess:
        """Address and credentials.

        Raises:
            UserError: no PostgreSQL server is deployed.
        """
        host = context.address("postgresql")
        return DatabaseAccess(host, PORT, self.name, context.secret_reference(self.secret), context.secrets.ca)
