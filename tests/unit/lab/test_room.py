"""Ports and memory of this machine, looked at before anything of a site is made."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.models.site import Site
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.troubleshooting import link_for
from strata_lab import memory, ports

SS = """LISTEN 0      5      10.77.0.1%cni-podman2:9697 0.0.0.0:* users:(("python3",pid=2660,fd=3))
LISTEN 0      128          *:9697       *:*    users:(("nginx",pid=12,fd=6),("nginx",pid=13,fd=6))
LISTEN 0      128    [::1]:9697       [::]:*
"""


@pytest.fixture
def site() -> Site:
    """The lab's."""
    return load_site(find_site("lab"))


def test_output_of_ss() -> None:
    assert list(ports.parse(SS)) == [
        ports.Listener("10.77.0.1", "python3", 2660),
        ports.Listener("*", "nginx", 12),
        ports.Listener("[::1]", "", 0),
    ]


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ('LISTEN 0 5 *:9697 *:* users:(("nginx",pid=1,fd=6))', r"nginx \(process 1\)"),
        ('LISTEN 0 5 0.0.0.0:9697 0.0.0.0:* users:(("nginx",pid=1,fd=6))', r"nginx \(process 1\)"),
        ("LISTEN 0 5 10.77.0.1:9697 0.0.0.0:*", "a process that cannot be seen from here"),
    ],
)
def test_a_taken_port_is_named(site: Site, monkeypatch: pytest.MonkeyPatch, line: str, who: str) -> None:
    monkeypatch.setattr(ports, "listeners", lambda _: list(ports.parse(line)))
    message = rf"cloud.networks.platform: port 9697 of its gateway 10.77.0.1, .* is taken on this machine by {who}"
    with pytest.raises(UserError, match=message) as caught:
        ports.check_ports(site)
    assert link_for(caught.value) == "docs/troubleshooting.md#a-port-or-address-is-already-taken"


def test_other_addresses_and_the_agent_itself_are_not_conflicts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [ports.Listener("10.99.0.1", "nginx", 1), ports.Listener("10.77.0.1", "python3", 2660)]
    monkeypatch.setattr(ports, "listeners", lambda _: others)
    monkeypatch.setattr(ports, "_is_agent", lambda pid: pid == 2660)
    ports.check_ports(site)
    ports.check_ports(load_site(find_site("csc")))


def test_a_real_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listeners = ports.listeners(server.getsockname()[1])
    if not listeners:
        pytest.skip("this machine has no ss")
    assert [(listener.address, listener.pid) for listener in listeners] == [("127.0.0.1", os.getpid())]


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gibibytes: float, *running: str) -> None:
    """A machine with so much memory left, on which these containers of the lab run."""
    file = tmp_path / "meminfo"
    file.write_text(f"MemTotal:       24000000 kB\nMemAvailable:   {int(gibibytes * (1 << 20))} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", file)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/podman")
    monkeypatch.setattr(memory, "site_containers", lambda *_, **__: list(running))


def test_too_little_memory_is_reported(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is there, what is needed at least, and what the flavors promise: 2.5 + 3 × 2 + 4 GiB."""
    machine(tmp_path, monkeypatch, 3.0)
    message = (
        r"3\.0 GiB of memory are left on this machine; what is missing of site lab \(OpenStack, 4 instances\) uses at "
        r"least 3\.5 GiB, and up to 14\.5 GiB"
    )
    with pytest.raises(UserError, match=message) as caught:
        memory.check_memory(site)
    assert link_for(caught.value) == "docs/troubleshooting.md#there-is-no-memory-left"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("gibibytes", "running"),
    [
        (3.6, ()),
        (
            0.6,
            ("strata-lab-controller", "strata-lab-network", "strata-lab-1", "strata-lab-2"),
        ),
        (0.6, ("strata-lab-controller", "strata-lab-backup-store", "strata-lab-1", "strata-lab-2")),
        (0.1, ("strata-lab-controller", "strata-lab-1", "strata-lab-2", "strata-lab-3", "strata-lab-4")),
    ],
)
def test_what_runs_already_has_its_memory(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gibibytes: float, running: tuple[str, ...]
) -> None:
    machine(tmp_path, monkeypatch, gibibytes, *running)
    memory.check_memory(site)
