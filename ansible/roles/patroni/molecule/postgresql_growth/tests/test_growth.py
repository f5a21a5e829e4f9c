"""The databases of the only server are on all three afterwards, and writes went on after a short pause."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

from strata_bench.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parent))
from writer import ACKNOWLEDGED, DATABASE, UNIT, in_container

SCENARIO = Scenario.of(__file__)
SERVERS = ("database-1", "database-2", "database-3")
GROWN = "database-2"
LONGEST_PAUSE = 60.0
"""Seconds without an acknowledged write, from the stop of the server to the promotion by Patroni."""
LONGEST = 60.0
output = SCENARIO.output


def numbers(name: str) -> set[int]:
    """What a server has."""
    return set(map(int, output(name, f"psql -U postgres -d {DATABASE} -XAtc 'table written'").split()))


def test_no_acknowledged_write_is_lost_and_the_pause_is_short() -> None:
    in_container("systemctl", "stop", UNIT)
    lines = [line.split() for line in in_container("cat", ACKNOWLEDGED).splitlines()]
    acknowledged, times = {int(number) for number, _ in lines}, [float(moment) for _, moment in lines]
    pauses = sorted((later - earlier for earlier, later in itertools.pairwise(times)), reverse=True)
    print(f"{len(acknowledged)} writes, longest pauses {[f'{pause:.1f} s' for pause in pauses[:3]]}")
    end = time.monotonic() + LONGEST
    for name in SERVERS:
        while not acknowledged <= numbers(name):
            assert time.monotonic() < end, f"{name} does not have every acknowledged write"
            time.sleep(0.5)
    assert len(acknowledged) > 100
    assert pauses[0] < LONGEST_PAUSE


def test_the_servers_are_replicated() -> None:
    listed = json.loads(output(GROWN, "patronictl --config-file /etc/patroni/config.yml list --format json"))
    assert sorted(m["Role"] for m in listed) == ["Leader", "Replica", "Sync Standby"]
    assert {m["Member"]: m["Role"] for m in listed}[GROWN] == "Leader"
    assert {m["State"] for m in listed} <= {"running", "streaming"}


def test_another_server_takes_over_from_the_grown_one_and_it_rejoins() -> None:
    """pg_rewind and replication have their users on databases that Patroni did not make."""
    patronictl = "patronictl --config-file /etc/patroni/config.yml"
    output(GROWN, f"{patronictl} switchover --force")
    end = time.monotonic() + LONGEST
    while True:
        listed = json.loads(output(GROWN, f"{patronictl} list --format json"))
        members = {m["Member"]: (m["Role"], m["State"]) for m in listed}
        moved = members[GROWN][0] != "Leader" and any(role == "Leader" for role, _ in members.values())
        if moved and members[GROWN][1] in ("running", "streaming") and len({m["TL"] for m in listed}) == 1:
            break
        assert time.monotonic() < end, members
        time.sleep(0.5)


def test_nothing_of_the_former_server_is_left() -> None:
    remaining = output(GROWN, "find /etc/postgresql -name strata.conf -o -name server.pem; ls /var/lib/postgresql/*")
    assert "strata.conf" not in remaining
    assert "main" not in remaining.split()
