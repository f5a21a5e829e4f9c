"""A restore of several servers: what reaches the hosts, and what happens to the others when it ends early."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.access import backups, postgresql_restore
from strata.access.postgresql_restore import UNIT, restore_postgresql
from strata.access.ssh import UNREACHABLE
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.host_list import Host
from strata.site_file.inventories import find_site

PRIMARY, *OTHERS = (Host(f"database-{i}", f"198.18.13.10{i}", ("postgresql",)) for i in (1, 2, 3))
STARTED = [(host.name, "systemctl start patroni") for host in OTHERS]


class Servers:
    """Answers in place of SSH.

    Args:
        restored: exit status of the restore, or what is raised in its place.
        running: exit status of the question whether the restore's unit runs.
    """

    def __init__(self, restored: int | BaseException, running: int) -> None:
        self.restored, self.running = restored, running
        self.commands: list[tuple[str, str]] = []

    def run(self, _: SiteContext, address: str, command: str, **__: object) -> subprocess.CompletedProcess[str]:
        host = next(host for host in (PRIMARY, *OTHERS) if host.address == address)
        self.commands.append((host.name, command))
        status, said = 0, ""
        if command.endswith(" role"):
            said = "primary" if host == PRIMARY else "standby"
        elif command.startswith("systemd-run"):
            if isinstance(self.restored, BaseException):
                raise self.restored
            status = self.restored
        elif "is-active" in command:
            status = self.running
        return subprocess.CompletedProcess(command, status, said, "no space" if status else "")


@pytest.fixture
def context(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    monkeypatch.setattr(postgresql_restore, "archive_hosts", lambda *_: (PRIMARY, *OTHERS))
    monkeypatch.setattr(postgresql_restore, "replicated_postgresql", lambda *_: True)
    return SiteContext.load(find_site("metal"))


def restore(context: SiteContext, monkeypatch: pytest.MonkeyPatch, servers: Servers) -> None:
    monkeypatch.setattr(backups, "run_ssh", servers.run)
    restore_postgresql(context, "latest", None, overwrite=True, dry_run=False, progress=Silent())


def test_the_others_stop_and_copy_what_was_restored(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(0, 3)
    restore(context, monkeypatch, servers)
    done = [(name, command) for name, command in servers.commands if "role" not in command and "dry-run" not in command]
    (name, restoring) = done.pop(2)
    assert name == PRIMARY.name
    assert f"--unit={UNIT}" in restoring
    assert "--overwrite" in restoring
    assert done == [
        *((host.name, "systemctl stop patroni") for host in OTHERS),
        *((host.name, f"{backups.ARCHIVE.path} join") for host in OTHERS),
    ]


@pytest.mark.parametrize(("end", "seen"), [(1, UserError), (KeyboardInterrupt(), KeyboardInterrupt)])
def test_the_others_start_again_after_a_failure(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, end: int | BaseException, seen: type[BaseException]
) -> None:
    servers = Servers(end, 3)
    with pytest.raises(seen):
        restore(context, monkeypatch, servers)
    assert servers.commands[-2:] == STARTED


@pytest.mark.parametrize("running", [0, UNREACHABLE])
@pytest.mark.parametrize("end", [UNREACHABLE, KeyboardInterrupt()])
def test_the_others_stay_stopped_while_the_restore_may_run(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, end: int | BaseException, running: int
) -> None:
    servers = Servers(end, running)
    with pytest.raises(UserError, match="the restore may still run") as error:
        restore(context, monkeypatch, servers)
    assert UNIT in str(error.value.fix)
    assert not [command for command in servers.commands if command in STARTED]
