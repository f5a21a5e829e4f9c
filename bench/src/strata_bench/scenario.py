"""The containers that a molecule scenario has as hosts of a site, for the tests of that scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import testinfra

from strata.access.podman import podman
from strata.site.context import SiteContext
from strata.site_file.inventories import SITE_FILE

if TYPE_CHECKING:
    from testinfra.host import Host


@dataclass(frozen=True)
class Scenario:
    """A scenario whose inventory is a site file.

    Args:
        context: its site.
    """

    context: SiteContext

    @classmethod
    def of(cls, test: str) -> Scenario:
        """The scenario of a test: `Scenario.of(__file__)`."""
        return cls(SiteContext.load(Path(test).parents[1] / "inventory" / SITE_FILE))

    def container(self, host: str) -> str:
        """Name of a host's container."""
        return f"strata-{self.context.site.name}-{host}"

    def identity(self, host: str) -> str:
        """Id of a host's container."""
        return podman("inspect", "--format", "{{.Id}}", self.container(host)).strip()

    def host(self, host: str) -> Host:
        """A host, for testinfra."""
        return testinfra.get_host(f"podman://{self.container(host)}")

    def output(self, host: str, command: str, *arguments: str) -> str:
        """Output of a command that must succeed; `%s` in it is replaced by the next argument, quoted."""
        return str(self.host(host).check_output(command, *arguments)).strip()

    def sql(self, database: str, host: str, statement: str) -> str:
        """What a PostgreSQL server answers its administrator."""
        command = "runuser -u postgres -- psql --no-psqlrc -tA --dbname %s --command %s"
        return self.output(host, command, database, statement)
