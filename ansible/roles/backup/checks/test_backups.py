"""Backups of exports and databases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from strata.access.backups import PROGRAM, ROLE, UNIT, snapshots
from strata.catalogue.backup_items import backup_items
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.verify.needs import BACKUPS, needs
from strata.verify.waiting import settled

if TYPE_CHECKING:
    from testinfra.host import Host


def wait_for_run(connection: Host) -> None:
    """Waits for a backup that runs: one that was missed while the host was down begins with it."""
    state = f"systemctl show --value --property=ActiveState {UNIT}"
    settled(lambda: connection.check_output(state).strip(), lambda unit_state: unit_state != "activating")


@needs(BACKUPS)
def test_backups_are_recent(context: SiteContext, site_host: Callable[[str], Host]) -> None:
    """Each export and database has a recent backup or waits for its first, and its last snapshot can be restored."""
    hosts = hosts_with(ROLE, context.site, context.cloud_outputs)
    for machine in hosts:
        connection = site_host(machine.name)
        assert connection.service("strata-backup.timer").is_running, machine.name
        wait_for_run(connection)
        # it gives the repository seconds to open, which a busy store may not do at once
        problems = partial(connection.check_output, f"{PROGRAM} problems")
        assert settled(problems, lambda text: not text.strip()).strip() == "", machine.name
    known = snapshots(context)
    for machine in hosts:
        connection = site_host(machine.name)
        for item in backup_items(context.site, machine.roles):
            if any(snapshot["item"] == item and snapshot["host"] == machine.name for snapshot in known):
                target = "/nowhere" if item.startswith("export/") else "strata_verify"
                command = f"{PROGRAM} restore --snapshot latest --what {item} --target {target} --dry-run"
                assert "would restore" in connection.check_output(command)
