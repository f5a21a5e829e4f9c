"""The load balancer with the virtual address is lost under load: the other takes over, after one gap."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.access.podman import podman
from strata.engine.ansible import PlaybookResult, run_playbook
from strata.progress import Silent
from strata.site.context import SiteContext
from strata_bench.scenario import Scenario
from strata_bench.waiting import eventually

SCENARIO = Scenario.of(__file__)
CONTEXT = SCENARIO.context
MACHINES = {machine.name: str(machine.address) for machine in CONTEXT.site.hosts.machines}
SECTION = CONTEXT.site.hosts.load_balancer
assert SECTION is not None
ADDRESS = str(SECTION.virtual_address)
CONFIGURATION = "/etc/keepalived/keepalived.conf"
RELOAD = "keepalived : Reload keepalived where its configuration is newer than the one in force"
LONGEST_GAP = 10.0
"""Longest time without a response, in seconds."""
UNNOTICED = 1.5
"""Seconds that a slow machine may need for one request: shorter gaps are none."""
LONGEST = 60.0
PAUSE = 0.05
host = SCENARIO.host


def holders(among: tuple[str, ...] = tuple(MACHINES)) -> list[str]:
    """The hosts that have the virtual address."""
    command = f"ip -json address show to {ADDRESS}"
    return [name for name in among if any(json.loads(host(name).check_output(command) or "[]"))]


def run_again(context: SiteContext = CONTEXT) -> PlaybookResult:
    """The hosts' playbook, as `strata up` runs it."""
    return run_playbook(context, "hosts", Silent())


class Client(threading.Thread):
    """Requests one page after the other at the virtual address, each in a connection of its own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.responses: list[float] = []
        """When each came (monotonic seconds)."""
        self._stopped = threading.Event()

    def run(self) -> None:
        """HAProxy's redirect is a response."""
        while not self._stopped.wait(PAUSE):
            try:
                with socket.create_connection((ADDRESS, 80), timeout=1) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\nHost: www\r\n\r\n")
                    if b" 308 " in connection.recv(100):
                        self.responses.append(time.monotonic())
            except OSError:
                pass

    def stop(self) -> None:
        """Waits for the last request."""
        self._stopped.set()
        self.join(LONGEST)

    def continues(self) -> bool:
        """Whether a response came in the last half second."""
        return bool(self.responses) and self.responses[-1] > time.monotonic() - 0.5

    def gaps(self) -> list[float]:
        """Times without a response that a user would notice (s)."""
        intervals = (later - earlier for earlier, later in itertools.pairwise(self.responses))
        return [gap for gap in intervals if gap > UNNOTICED]


@pytest.fixture
def client() -> Iterator[Client]:
    eventually(lambda: len(holders()) == 1, LONGEST, "the virtual address is on one host")
    started = Client()
    started.start()
    eventually(lambda: len(started.responses) > 20, LONGEST, f"{ADDRESS} responds")
    yield started
    started.stop()


def lose(client: Client, lost: str, how: Callable[[], object], back: Callable[[], object]) -> None:
    """Loses the host with the address and brings it back: one gap, and the address stays where it went."""
    (other,) = (name for name in MACHINES if name != lost)
    how()
    moment = time.monotonic()
    try:
        eventually(lambda: holders((other,)) == [other], LONGEST, f"{other} takes the address over")
        eventually(
            lambda: client.continues() and client.responses[-1] > moment + 1, LONGEST, "responses after the loss"
        )
    finally:
        back()
    eventually(lambda: host(lost).service("keepalived").is_running, LONGEST, f"keepalived starts on {lost}")
    eventually(lambda: host(lost).service("haproxy").is_running, LONGEST, f"HAProxy starts on {lost}")
    # longer than an election, which would move the address
    time.sleep(8)
    client.stop()
    gaps = client.gaps()
    print(f"{lost} lost: {len(client.responses)} responses, gaps {[f'{gap:.1f} s' for gap in gaps]}")
    assert len(gaps) <= 1
    assert max(gaps, default=0) < LONGEST_GAP
    assert holders() == [other]


# the second loss is the other host's, to which the address moved
@pytest.mark.parametrize("loss", ["first", "second"])
def test_the_other_one_takes_over_and_keeps_the_address(client: Client, loss: str) -> None:  # noqa: ARG001  # a name
    (lost,) = holders()
    identity = SCENARIO.identity(lost)
    lose(client, lost, lambda: podman("kill", "--signal", "KILL", identity), lambda: podman("start", identity))


def test_a_host_whose_haproxy_does_not_respond_gives_the_address_away(client: Client) -> None:
    (lost,) = holders()
    # it runs and holds its ports, but answers nothing
    lose(
        client,
        lost,
        lambda: host(lost).check_output("pkill -STOP haproxy"),
        lambda: host(lost).check_output("pkill -CONT haproxy"),
    )


def test_packets_of_vrrp_are_accepted_from_load_balancers_alone() -> None:
    rules = host("edge-1").check_output("nft list chain inet strata_firewall incoming")
    (rule,) = (line.strip() for line in rules.splitlines() if 'comment "vrrp"' in line)
    # nft lists neighboring addresses as a range
    assert rule.startswith("ip saddr { 10.190.7.11-10.190.7.12 } meta l4proto vrrp accept")


def test_the_check_fails_where_haproxy_is_stopped() -> None:
    (holder,) = holders()
    other = next(name for name in MACHINES if name != holder)
    check = "runuser -u nobody -- /etc/keepalived/check-haproxy"
    assert host(other).run(check).rc == 0
    host(other).check_output("systemctl stop haproxy")
    try:
        assert host(other).run(check).rc != 0
    finally:
        host(other).check_output("systemctl start haproxy")


def test_a_run_that_ended_before_the_reload_is_completed() -> None:
    (holder,) = holders()
    other = next(name for name in MACHINES if name != holder)
    content = host(other).file(CONFIGURATION).content_string
    # as the only load balancer of a site, which does not hear the other one
    lines = content.splitlines(keepends=True)
    alone = "".join(lines[: lines.index("    check_unicast_src\n")] + lines[lines.index("    virtual_ipaddress {\n") :])
    write(other, alone)
    host(other).check_output("systemctl reload keepalived")
    eventually(lambda: len(holders()) == 2, LONGEST, f"{other} has the address as well")
    write(other, content)
    assert f"{other}: {RELOAD}" in run_again().changed_tasks
    eventually(lambda: len(holders()) == 1, LONGEST, "the virtual address is on one host")
    assert run_again().changed == 0


def write(name: str, text: str) -> None:
    """A host's configuration of keepalived, without a reload."""
    host(name).check_output("printf %%s %s >%s", text, CONFIGURATION)


# the last one: edge-2 stays as it is then
def test_a_host_that_loses_the_role_gives_the_address_up(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    before = "{name: edge-2, address: 10.190.7.12, roles: [load_balancer]}"
    text = CONTEXT.site_file.read_text()
    assert before in text
    file.write_text(text.replace(before, before.replace("load_balancer", "registry")))
    host("edge-1").check_output("systemctl stop haproxy")
    eventually(lambda: holders() == ["edge-2"], LONGEST, "edge-2 takes the address over")
    host("edge-1").check_output("systemctl start haproxy")
    run_again(SiteContext.load(file))
    eventually(lambda: holders() == ["edge-1"], LONGEST, "edge-1 has the address alone")
    service = host("edge-2").service("keepalived")
    assert (service.is_running, service.is_enabled) == (False, False)
    assert not host("edge-2").file(CONFIGURATION).exists
