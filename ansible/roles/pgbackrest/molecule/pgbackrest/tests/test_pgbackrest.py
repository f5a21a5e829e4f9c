"""Rows that were deleted come back, those written later do not; a killed backup leaves the repository as it was."""

from __future__ import annotations

import json
import shlex
import time
from datetime import UTC, datetime
from functools import partial

import pytest

from strata.access.backups import ARCHIVE, back_up, snapshots
from strata.access.postgresql_restore import restore_postgresql
from strata.errors import UserError
from strata.inventory.topology import database_secret
from strata.progress import Silent
from strata_bench.scenario import Scenario
from strata_bench.waiting import eventually

SCENARIO = Scenario.of(__file__)
CONTEXT = SCENARIO.context
SERVERS = tuple(machine.name for machine in CONTEXT.site.hosts.machines if "postgresql" in machine.roles)
DATABASE = "records"
ROWS = 1000
LOOP = """do $$ begin
for i in {first}..{last} loop insert into written values (i, clock_timestamp()); commit; end loop;
end $$"""
LONGEST = 300.0
WRAPPER = "/usr/local/bin/patronictl"
FAILING = """#!/bin/sh
[ "$3" != remove ] && exec /usr/bin/patronictl "$@"
exit 1
"""
PASSWORDS = ("backup_password", "backup_secret_key")
server, sql = SCENARIO.host, partial(SCENARIO.sql, DATABASE)


def primary() -> str:
    """The server that is the primary."""
    return next(name for name in SERVERS if server(name).check_output(f"{ARCHIVE.path} role") == "primary")


def whole() -> bool:
    """Whether one server is the primary, one its synchronous standby, and all follow the same timeline."""
    listed = json.loads(
        server(SERVERS[0]).check_output("patronictl --config-file /etc/patroni/config.yml list --format json")
    )
    roles = sorted(member["Role"] for member in listed)
    return roles == ["Leader", "Replica", "Sync Standby"] and len({member["TL"] for member in listed}) == 1


def digest(name: str) -> str:
    """Number of rows and what they contain, in order."""
    return sql(name, "select count(*), md5(string_agg(number || ' ' || written, ',' order by number)) from written")


def restore(moment: datetime) -> float:
    """Restores to a moment; returns the seconds until every server has the databases."""
    start = time.monotonic()
    print(restore_postgresql(CONTEXT, "latest", moment, overwrite=True, dry_run=False, progress=Silent()))
    eventually(whole, LONGEST, "the cluster is whole after the restore")
    return time.monotonic() - start


def write(first: int) -> None:
    """Rows with the time of their transactions, one each."""
    sql(primary(), LOOP.format(first=first, last=first + ROWS - 1))


def moment() -> datetime:
    """A time between two transactions."""
    time.sleep(1.5)
    now = datetime.now(UTC)
    time.sleep(1.5)
    return now


@pytest.fixture(scope="module", autouse=True)
def table() -> None:
    eventually(whole, LONGEST, "the cluster is whole")
    sql(primary(), "drop table if exists written")
    sql(primary(), "create table written (number bigint primary key, written timestamptz)")
    start = time.monotonic()
    back_up(CONTEXT, Silent())
    print(f"first backup: {time.monotonic() - start:.1f} s")


def test_deleted_rows_come_back_and_a_second_restore_follows_the_first() -> None:
    write(0)
    # as in a backup from before the passwords were rotated
    sql(primary(), "alter role replicator password 'of before'")
    before, expected = moment(), digest(primary())
    sql(primary(), "delete from written where number % 2 = 0")
    write(ROWS)
    print(f"restore: {restore(before):.1f} s")
    for name in SERVERS:
        eventually(lambda name=name: digest(name) == expected, LONGEST, f"{name} has the rows of {before}")  # type: ignore[misc]  # a default argument
    # on the new timeline; the backup of the first is still the last one that leads here
    write(2 * ROWS)
    again, expected = moment(), digest(primary())
    sql(primary(), "truncate written")
    print(f"second restore: {restore(again):.1f} s")
    for name in SERVERS:
        eventually(lambda name=name: digest(name) == expected, LONGEST, f"{name} has the rows of {again}")  # type: ignore[misc]  # a default argument
    assert server(primary()).check_output(f"{ARCHIVE.path} problems") == ""


def test_a_killed_backup_leaves_the_repository_usable() -> None:
    known = {snapshot["id"] for snapshot in snapshots(CONTEXT)}
    sql(primary(), "create table if not exists ballast as select md5(i::text) from generate_series(1, 2000000) i")
    host = server(primary())
    host.check_output(f"systemctl start --no-block {ARCHIVE.unit}")
    eventually(lambda: host.run("pgrep -f 'pgbackrest.*backup:local'").rc == 0, LONGEST, "a backup runs")
    host.check_output(f"systemctl kill --kill-whom=all --signal=KILL {ARCHIVE.unit}")
    eventually(
        lambda: host.check_output(f"systemctl show -P ActiveState {ARCHIVE.unit}") == "failed",
        LONGEST,
        "the backup has failed",
    )
    assert {snapshot["id"] for snapshot in snapshots(CONTEXT)} == known
    assert "the last backup failed" in host.check_output(f"{ARCHIVE.path} problems")
    back_up(CONTEXT, Silent())
    assert len(snapshots(CONTEXT)) == len(known) + 1
    assert host.check_output(f"{ARCHIVE.path} problems") == ""
    verified = host.check_output("runuser -u postgres -- pgbackrest --stanza=postgresql --output=text verify")
    assert "error" not in verified.lower().replace("error: 0", ""), verified


def test_a_restore_that_fails_at_its_end_leaves_the_servers_as_they_were() -> None:
    before = moment()
    write(3 * ROWS)
    expected, host = digest(primary()), server(primary())
    # what has Patroni take the restored files for those of a new cluster
    host.check_output(f"printf %s {shlex.quote(FAILING)} > {WRAPPER}; chmod +x {WRAPPER}")
    try:
        with pytest.raises(UserError, match="patronictl remove"):
            restore(before)
    finally:
        host.check_output(f"rm {WRAPPER}")
    eventually(whole, LONGEST, "the cluster is whole after a restore that failed")
    assert digest(primary()) == expected


def test_what_cannot_be_restored_changes_nothing() -> None:
    expected = digest(primary())
    with pytest.raises(UserError, match="after that moment"):
        restore(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(UserError, match="the archive ends before that moment"):
        restore(datetime(2100, 1, 1, tzinfo=UTC))
    eventually(whole, LONGEST, "the cluster is whole after a restore that failed")
    assert digest(primary()) == expected


def test_wal_that_is_not_archived_is_reported() -> None:
    host, edge = server(primary()), server("edge-1")
    configuration = "/etc/pgbackrest/strata.json"
    before = host.check_output(f"cat {configuration}")
    edge.check_output("systemctl stop test-s3-tls")
    try:
        host.check_output(
            f'sed -i \'s/"maximum_archive_age_seconds": [0-9]*/"maximum_archive_age_seconds": 0/\' {configuration}'
        )
        sql(primary(), "create table if not exists more (); select pg_switch_wal()")
        time.sleep(2)
        assert "WAL is not archived for" in host.check_output(f"{ARCHIVE.path} problems")
    finally:
        edge.check_output("systemctl start test-s3-tls")
        host.check_output(f"cat > {configuration} <<'E'\n{before}\nE\n")
    eventually(lambda: host.check_output(f"{ARCHIVE.path} problems") == "", LONGEST, "WAL is archived again")


def test_secrets_are_private() -> None:
    for name in SERVERS:
        file = server(name).file("/etc/pgbackrest/pgbackrest.conf")
        assert (file.mode, file.user) == (0o600, "postgres")
        arguments = server(name).check_output("ps -eo args")
        assert not [secret for secret in PASSWORDS if CONTEXT.secrets.get(secret) in arguments]
    assert CONTEXT.secrets.get(database_secret(DATABASE))


def test_the_repository_is_encrypted() -> None:
    (stanza,) = json.loads(
        server(primary()).check_output("runuser -u postgres -- pgbackrest --stanza=postgresql --output=json info")
    )
    assert stanza["cipher"] == "aes-256-cbc"
    # beside those of a first start
    stored = server("edge-1").check_output("find /srv/s3/buckets -type f -size +0 -path '*/postgresql/*'").splitlines()
    assert [path for path in stored if "/backup/" in path]
    assert [path for path in stored if "/archive/" in path]
    first = server("edge-1").check_output(
        "find /srv/s3/buckets -type f -size +0 -path '*/postgresql/*' -exec sh -c 'head -c 8 {}; echo' ';' | sort -u"
    )
    assert first == "Salted__"
