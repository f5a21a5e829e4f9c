"""Backups of PostgreSQL servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from strata.access.backups import ARCHIVE, archive_hosts, snapshots
from strata.access.postgresql_restore import ITEM
from strata.site.context import SiteContext
from strata.verify.needs import ARCHIVED_POSTGRESQL, needs

if TYPE_CHECKING:
    from testinfra.host import Host


@needs(ARCHIVED_POSTGRESQL)
def test_postgresql_is_archived(context: SiteContext, site_host: Callable[[str], Host]) -> None:
    """The PostgreSQL primary archives WAL now, its backups are recent, and the last can be restored."""
    servers = archive_hosts(context)
    roles = {machine.name: site_host(machine.name).check_output(f"{ARCHIVE.path} role").strip() for machine in servers}
    primaries = [name for name, role in roles.items() if role == "primary"]
    assert len(primaries) == 1, roles
    connection = site_host(primaries[0])
    assert connection.service("strata-pgbackrest.timer").is_running
    assert connection.check_output(f"{ARCHIVE.path} problems").strip() == ""
    connection.check_output("runuser -u postgres -- pgbackrest --stanza=postgresql check")
    if any(snapshot["item"] == ITEM for snapshot in snapshots(context)):
        assert "would restore" in connection.check_output(f"{ARCHIVE.path} restore --dry-run")
