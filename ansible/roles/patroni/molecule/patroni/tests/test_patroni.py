"""The primary is lost under load: writes go on within 30 s, no acknowledged one is lost, and its host rejoins."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from strata.access.podman import podman
from strata.inventory.topology import database_secret
from strata.site.paths import REPOSITORY
from strata_bench.scenario import Scenario
from strata_bench.waiting import eventually

SCENARIO = Scenario.of(__file__)
CONTEXT = SCENARIO.context
MACHINES = {machine.name: str(machine.address) for machine in CONTEXT.site.hosts.machines}
SERVERS = tuple(name for name in MACHINES if name.startswith("database-"))
DATABASE = "records"
PROMISED = 30.0
"""Longest time without an acknowledged write, in seconds."""
LONGEST = 180.0
SECRETS = tuple(f"postgresql_{user}_password" for user in ("superuser", "replication", "rewind"))
PATRONICTL = "patronictl --config-file /etc/patroni/config.yml"
output, sql = SCENARIO.output, partial(SCENARIO.sql, DATABASE)


def connect() -> psycopg.Connection[Any]:
    """As a service does: at the load balancer, with a verified certificate."""
    return psycopg.connect(
        host=f"postgresql.{CONTEXT.site.domain}",
        hostaddr=MACHINES["edge-1"],
        dbname=DATABASE,
        user=DATABASE,
        password=CONTEXT.secrets.get(database_secret(DATABASE)),
        sslmode="verify-full",
        sslrootcert=str(CONTEXT.paths.ca_file),
        connect_timeout=3,
        autocommit=True,
    )


class Writer(threading.Thread):
    """Writes numbers one after the other, and remembers those that were acknowledged."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[tuple[int, float]] = []
        """Number, and when (monotonic seconds)."""
        self._stopped = threading.Event()

    def run(self) -> None:
        """Never writes a number again: one whose answer was lost may be stored."""
        number = 0
        while not self._stopped.is_set():
            try:
                with connect() as connection:
                    while not self._stopped.is_set():
                        number += 1
                        connection.execute("insert into written values (%s)", (number,))
                        self.acknowledged.append((number, time.monotonic()))
            except psycopg.Error:
                time.sleep(0.2)

    def stop(self) -> None:
        """Waits for the last write."""
        self._stopped.set()
        self.join(LONGEST)
        assert not self.is_alive()


def converge() -> int:
    """Runs the hosts' playbook, which must not show a password; returns how many tasks changed something."""
    playbook, program = REPOSITORY / "ansible" / "playbooks" / "hosts.yml", Path(sys.executable).parent
    done = subprocess.run(
        (program / "ansible-playbook", "--diff", "--inventory", CONTEXT.site_file, playbook),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert not [name for name in SECRETS if CONTEXT.secrets.get(name) in done.stdout]
    return sum(map(int, re.findall(r"changed=(\d+)", done.stdout)))


def members(asked: str) -> dict[str, dict[str, str]]:
    """The cluster as a host's patronictl sees it, by member."""
    listed = json.loads(output(asked, f"{PATRONICTL} list --format json"))
    return {member["Member"]: member for member in listed}


def primary(asked: str) -> str:
    """The member that is the primary."""
    return next(name for name, member in members(asked).items() if member["Role"] == "Leader")


def pending(asked: str) -> set[str]:
    """The members whose settings wait for a restart."""
    return {name for name, member in members(asked).items() if member.get("Pending restart")}


def replicated(asked: str) -> bool:
    """Whether one is the primary, one its synchronous standby, and all follow the same timeline."""
    listed = members(asked).values()
    roles = sorted(member["Role"] for member in listed)
    running = all(member["State"] in ("running", "streaming") for member in listed)
    return running and roles == ["Leader", "Replica", "Sync Standby"] and len({member["TL"] for member in listed}) == 1


@pytest.fixture
def writer() -> Iterator[Writer]:
    eventually(lambda: replicated(SERVERS[0]), LONGEST, "the cluster is whole")
    with connect() as connection:
        connection.execute("drop table if exists written")
        connection.execute("create table written (number bigint primary key)")
    started = Writer()
    started.start()
    eventually(lambda: len(started.acknowledged) > 100, LONGEST, "writes are acknowledged")
    yield started
    started.stop()


# the second loss is another host's: the one that was primary first is a standby by then
@pytest.mark.parametrize("loss", ["first", "second"])
def test_no_acknowledged_write_is_lost_with_the_primary(writer: Writer, loss: str) -> None:
    lost = primary(SERVERS[0])
    identity = SCENARIO.identity(lost)
    remaining = next(name for name in SERVERS if name != lost)
    podman("kill", "--signal", "KILL", identity)
    killed, before = time.monotonic(), len(writer.acknowledged)
    try:
        eventually(
            lambda: writer.acknowledged[-1][1] > killed + 1 and primary(remaining) != lost, LONGEST, "another primary"
        )
        after = len(writer.acknowledged)
        eventually(lambda: len(writer.acknowledged) > after + 100, LONGEST, "writes go on")
    finally:
        podman("start", identity)
    eventually(lambda: replicated(remaining), LONGEST, f"{lost} rejoins")
    writer.stop()
    times = [moment for _, moment in writer.acknowledged]
    gap = max(later - earlier for earlier, later in itertools.pairwise(times))
    print(f"{loss} loss: {before} writes before, {len(times) - before} after, longest gap {gap:.1f} s")
    assert primary(remaining) != lost
    acknowledged = {number for number, _ in writer.acknowledged}
    for name in SERVERS:
        eventually(
            lambda name=name: acknowledged <= set(map(int, sql(name, "select number from written").split())),  # type: ignore[misc]  # a default argument
            LONGEST,
            f"{name} has every acknowledged write",
        )
    assert gap < PROMISED


def test_a_standby_accepts_no_write_and_no_stranger() -> None:
    standby = next(name for name, member in members(SERVERS[0]).items() if member["Role"] != "Leader")
    assert sql(standby, "select pg_is_in_recovery()") == "t"
    edge = SCENARIO.host("edge-1")
    for port, path in ((12379, "health"), (8008, "restart")):
        url = f"https://{MACHINES[standby]}:{port}/{path}"
        answer = edge.run(f"curl --silent --output /dev/null --write-out '%{{http_code}}' --request POST {url}")
        assert answer.stdout in ("000", "403"), f"{url} accepts a client without a certificate: {answer.stdout}"


def test_settings_are_the_same_everywhere_and_passwords_are_private() -> None:
    for name in SERVERS:
        server = SCENARIO.host(name)
        assert sql(name, "show max_connections") == "60"
        for file in ("/etc/patroni/config.yml", "/etc/patroni/server.pem", "/etc/etcd/server.pem"):
            assert server.file(file).mode == 0o600
        assert CONTEXT.secrets.get("postgresql_replication_password") not in server.check_output("ps -eo args")
        assert server.service("etcd").is_enabled
        assert server.service("patroni").is_enabled


def test_settings_that_wait_for_a_restart_since_an_interrupted_run_are_applied() -> None:
    eventually(lambda: replicated(SERVERS[0]), LONGEST, "the cluster is whole")
    leader = primary(SERVERS[0])
    change = f"{PATRONICTL} edit-config --quiet --force --set postgresql.parameters.max_connections="
    output(leader, f"{change}70")
    eventually(lambda: pending(leader) == set(SERVERS), LONGEST, "the members wait for a restart")
    for name in sorted(SERVERS, key=leader.__eq__):
        output(leader, f"{PATRONICTL} restart --force postgresql {name}")
    eventually(lambda: replicated(leader), LONGEST, "the members run with 70")
    assert sql(leader, "show max_connections") == "70"
    output(leader, f"{change}60")
    eventually(lambda: pending(leader) == set(SERVERS), LONGEST, "the members wait for a restart again")
    assert converge() > 0
    for name in SERVERS:
        assert sql(name, "show max_connections") == "60"
    eventually(lambda: not pending(leader), LONGEST, "no member waits for a restart")
    assert primary(leader) == leader


def test_rotated_passwords_and_another_ca_reach_every_member() -> None:
    eventually(lambda: replicated(SERVERS[0]), LONGEST, "the cluster is whole")
    processes = {name: output(name, "systemctl show -P MainPID etcd") for name in SERVERS}
    for name in SECRETS:
        CONTEXT.secrets.rotate(name)
    # hosts trust the new CA beside the old one
    CONTEXT.secrets.replace_authority()
    converge()
    assert not [
        name for name, process in processes.items() if output(name, "systemctl show -P MainPID etcd") == process
    ]
    # the new one signs
    CONTEXT.secrets.replace_authority()
    converge()
    # what was connected before states nothing about passwords and certificates
    leader = primary(SERVERS[0])
    sql(leader, "select pg_terminate_backend(pid) from pg_stat_replication")
    eventually(
        lambda: sql(leader, "select count(*) from pg_stat_replication where state = 'streaming'") == "2",
        LONGEST,
        "both standbys follow",
    )
    eventually(lambda: replicated(leader), LONGEST, "the cluster is whole")
    for name in SERVERS:
        log = output(name, "journalctl --no-pager --output=cat; cat /var/log/postgresql/* || true")
        assert not [secret for secret in SECRETS if CONTEXT.secrets.get(secret) in log]
    assert converge() == 0
