"""What a host states of its disks, ports and memory, and the error that is made of it."""

from __future__ import annotations

import subprocess

import pytest

from strata.engine import diagnosis
from strata.errors import UserError
from strata.observe import HostFacts, Observation
from strata.observe.exhaustion import SCRIPT, ResourceExhaustion, parse
from strata.observe.facts import CloudFacts, ClusterFacts, PlatformFacts, ServiceFacts
from strata.observe.status import memory_notes, site_status
from strata.site.context import SiteContext
from strata.troubleshooting import link_for

GIB = 1 << 30
PLENTY = f"space {30 * GIB} {250 * GIB} 15228051 16000000 /\n"
LISTENING = (
    "port 22 77 sshd ssh.service\nport 443 812 python3 thief.service\n"
    "port 5000 90 docker-registry docker-registry.service\n"
    "port 5432 91 postgres postgresql@15-main.service\nport 2379 92 nc -\n"
)


def scarcity(text: str, *roles: str) -> ResourceExhaustion:
    """What is made of the script's output."""
    return parse(roles, text.splitlines())


def observation(hosts: dict[str, HostFacts]) -> Observation:
    """Of hosts only."""
    return Observation(
        cloud=CloudFacts(),
        hosts=hosts,
        cluster=ClusterFacts(),
        platform=PlatformFacts(),
        services=ServiceFacts(),
        seconds=0,
    )


def test_a_host_with_enough_of_everything() -> None:
    exhaustion = scarcity(PLENTY + "port 443 12 haproxy haproxy.service\n", "load_balancer", "registry")
    assert not exhaustion
    assert exhaustion.killed == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"space 0 {20 * GIB} 100 200 /srv/nfs", "/srv/nfs (0 B of 20 GiB free)"),
        (f"space 500000 {20 * GIB} 100 200 /", "/ (488 KiB of 20 GiB free)"),
        (f"space {GIB} {20 * GIB} 0 200 /var", "/var (no more files can be made, all inodes are used)"),
    ],
)
def test_a_full_file_system_is_named(line: str, said: str) -> None:
    exhaustion = scarcity(f"{PLENTY}{line}\n")
    assert [str(full) for full in exhaustion.full] == [said]
    assert exhaustion


@pytest.mark.parametrize(
    "line",
    [
        "space 0 0 0 0 /sys/fs/cgroup",
        "space 0 4096 0 9 /dev/shm",
        "space 0 4096 1 9 /run/containerd/io.containerd.runtime.v2.task/x/rootfs",
        "space 1040000 1048576 100 200 /run/small",  # nearly all of a little
        f"space {GIB} {GIB} 0 0 /without/inodes",
        "space Avail 1B-blocks IFree Inodes Mounted on",
    ],
)
def test_what_is_not_a_disk_or_not_full(line: str) -> None:
    assert not scarcity(line)


def test_ports_of_others_are_named() -> None:
    """A port that its own unit has is not taken; one that no role of the host needs is nobody's business."""
    exhaustion = scarcity(LISTENING, "registry", "postgresql", "load_balancer", "kine")
    assert [str(taken) for taken in exhaustion.taken] == [
        "port 443, which haproxy needs, is taken by python3 (process 812 of thief.service)",
        "port 2379, which kine needs, is taken by nc (process 92)",
    ]
    assert not scarcity(LISTENING, "nfs_server")


def test_the_script_runs_here() -> None:
    """On this very machine, whose root file system it must see."""
    done = subprocess.run(["sh", "-s"], input=SCRIPT, capture_output=True, text=True, check=False)
    assert any(line.startswith("space ") and line.endswith(" /") for line in done.stdout.splitlines()), done.stderr
    parse(("load_balancer",), done.stdout.splitlines())


@pytest.mark.parametrize(
    ("answer", "message", "fix", "entry"),
    [
        (
            f"space 0 {GIB} 1 2 /srv",
            "services-1 has no disk space left at /srv (0 B of 1 GiB free): playbook hosts: hidden",
            "on services-1, `du -xh --max-depth=2 /srv | sort -h | tail` shows what takes the space",
            "the-disk-is-full",
        ),
        (
            "port 443 812 python3 thief.service",
            "services-1: port 443, which haproxy needs, is taken by python3 (process 812 of thief.service): playbook",
            "on services-1, `systemctl disable --now thief.service` frees the port",
            "a-port-or-address-is-already-taken",
        ),
        (
            "port 443 812 nc -",
            "services-1: port 443, which haproxy needs, is taken by nc (process 812): playbook",
            "on services-1, `kill 812` frees the port",
            "a-port-or-address-is-already-taken",
        ),
        (
            "killed kine.service kine\nkilled kine.service kine\nkilled 4f python3",
            "playbook hosts: hidden",
            "fix it\n       the kernel has ended kine.service of services-1, python3 of services-1 "
            "because memory ran out",
            "a-playbook-failed",
        ),
        (PLENTY, "playbook hosts: hidden", "fix it", "a-playbook-failed"),
        ("", "playbook hosts: hidden", "fix it", "a-playbook-failed"),
    ],
)
def test_the_error_shows_what_is_exhausted(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, answer: str, message: str, fix: str, entry: str
) -> None:
    monkeypatch.setattr(diagnosis, "all_addresses", lambda _: {"services-1": "10.0.0.9"})
    monkeypatch.setattr(diagnosis, "ssh", lambda *_: (answer, ""))
    error = diagnosis.diagnose(context, UserError("playbook hosts: hidden", fix="fix it"), ["services-1", "services-1"])
    assert error.message.startswith(message)
    assert (error.fix or "").startswith(fix)
    assert link_for(error) == f"docs/troubleshooting.md#{entry}"


def test_hosts_that_are_not_there_are_not_asked(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ssh(_context: SiteContext, address: str, _script: str) -> tuple[str, str]:
        asked.append(address)
        return "", ""

    monkeypatch.setattr(diagnosis, "ssh", ssh)
    assert diagnosis.ask(context, ["worker-9", "controller"]) == {}
    assert asked == ["10.87.0.10"], "the controller has its address although it is not a host of the site"


def test_status_has_a_line_for_it(context: SiteContext) -> None:
    """Of a host that is missing something, and of no other."""
    units = {"nfs-ganesha": "active", "postgresql@*-main": "active", "kine": "active", "docker-registry": "active"}
    hosts = {
        "services-1": HostFacts(units=units, lacks=("/srv (0 B of 1 GiB free)",)),
        "worker-1": HostFacts(units={"kubelet": "active"}),
    }
    seen = observation(hosts)
    rows = [row for row in site_status(context, seen) if row.object.endswith(": room")]
    assert [(row.object, row.wanted, row.found) for row in rows] == [
        ("services-1: room", "enough", "none: /srv (0 B of 1 GiB free)")
    ]
    assert not rows[0].healthy


def test_what_ran_out_of_memory_is_noted() -> None:
    hosts = {"services-1": HostFacts(killed=("kine.service", "kine.service")), "worker-1": HostFacts()}
    seen = observation(hosts)
    assert len(memory_notes(seen)) == 1
    assert memory_notes(seen)[0].startswith(
        "services-1: the kernel ended kine.service because memory ran out (2 processes)"
    )
