"""An instance follows its flavor and its user data, and its actions end: they work, or nova gives the reason."""

from __future__ import annotations

import base64
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openstack.exceptions
import pytest

from strata.site.context import SiteContext

from .lab_site import require_lab
from .tenants import BUILD_SECONDS, Machine, Tenant, small_flavor, tenant, wait_until

if TYPE_CHECKING:
    from openstack.connection import Connection

pytestmark = pytest.mark.nightly

RAM, LARGER_RAM = 256, 384
"""MiB of the flavors before and after a resize."""
DISK, SMALLER_DISK = 2, 1
"""GiB."""
ADA_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEN9v3hA5p2Jm7eVjM2iX7Jj0S1o2u9W5sYbV7q3k0aa ada"
HOST_NAME = "named-by-user-data"
"""Not the instance's name in nova, which podman sets without cloud-init."""
USER_DATA = f"""#cloud-config
hostname: {HOST_NAME}
users:
  - default
  - {{name: ada, shell: /bin/bash, ssh_authorized_keys: ["{ADA_KEY}"]}}
write_files:
  - {{path: /etc/strata-test, content: "written by cloud-init", permissions: "0640"}}
runcmd:
  - [sh, -c, "hostname >/srv/commands-ran"]
"""
BUSY = """
import resource, subprocess, sys, time
started = time.monotonic()
loop = "import time\\nend = time.monotonic() + 2\\nwhile time.monotonic() < end: pass"
for process in [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(3)]:
    process.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print((used.ru_utime + used.ru_stime) / (time.monotonic() - started))
"""
TICKS = "/run/ticks"
TICK = f"while :; do printf . >>{TICKS}; sleep 0.05; done"


@dataclass(frozen=True)
class Place:
    """One project with one instance.

    Args:
        tenant: the project.
        machine: the instance.
        key: public key of its key pair.
        larger: id of a flavor with more memory and CPUs.
        smaller_disk: id of a flavor with a smaller disk.
    """

    tenant: Tenant
    machine: Machine
    key: str
    larger: str
    smaller_disk: str

    def server(self) -> Any:
        """The instance as nova shows it now."""
        return self.tenant.cloud.compute.get_server(self.machine.id)

    def settled(self, status: str, seconds: float = BUILD_SECONDS) -> None:
        """Waits until the instance has a status and no task.

        Raises:
            AssertionError: it has another one, or hangs in a task.
        """

        def done() -> bool:
            server = self.server()
            assert server.status != "ERROR" or status == "ERROR", server.fault
            return bool(server.status == status and server.task_state is None)

        wait_until(done, seconds)

    def wait_for_boot(self) -> None:
        """Waits until cloud-init is through."""
        self.machine.run("cloud-init", "status", "--wait", timeout=BUILD_SECONDS)

    def memory(self) -> int:
        """MiB that the instance believes to have."""
        return int(self.machine.run("awk", "/^MemTotal/ {print $2}", "/proc/meminfo")) // 1024

    def failures(self, action: str) -> list[str]:
        """What nova states about the instance's last action of that name: why each failed part of it failed."""
        compute = self.tenant.cloud.compute
        actions = [a for a in compute.server_actions(self.machine.id) if a.action == action]
        if not actions:
            return []
        events = compute.get_server_action(actions[0].request_id, self.machine.id).events
        return [str(event["details"]) for event in events if event["result"] == "Error"]


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection) -> Iterator[Place]:
    """A small instance with user data, removed after the last test."""
    require_lab(context)  # instances are looked into by podman
    site = context.site
    assert site.cloud is not None
    assert site.cloud.control_network is not None
    # of the range for tests between machines, another part for each site
    part = f"198.19.{site.cloud.control_network.network_address.packed[1]}"
    image = cloud.image.find_image(site.cloud.images[0].name, ignore_missing=False)
    plain = next(f.name for f in site.cloud.flavors if not f.accelerators)
    with contextlib.ExitStack() as cleanup:
        flavor = cleanup.enter_context(small_flavor(cloud, plain, ram=RAM, disk=DISK))
        larger = cleanup.enter_context(small_flavor(cloud, plain, ram=LARGER_RAM, vcpus=2, disk=DISK))
        smaller = cleanup.enter_context(small_flavor(cloud, plain, ram=RAM, disk=SMALLER_DISK))
        project = cleanup.enter_context(tenant(cloud, site.name))
        pair = project.cloud.compute.create_keypair(name=f"test-{uuid.uuid4().hex[:8]}")
        cleanup.callback(project.cloud.compute.delete_keypair, pair.name)
        subnet = project.network("instances", f"{part}.0/28")
        # the instance goes before its flavors and its key: what is entered last is left first
        port = project.port(subnet, [project.group("instances")])
        options = {"key_name": pair.name, "user_data": base64.b64encode(USER_DATA.encode()).decode()}
        machine = project.machines(image.id, flavor, options=options, one=port)["one"]
        made = Place(project, machine, pair.public_key.strip(), larger, smaller)
        made.wait_for_boot()
        yield made


def test_instance_sees_and_gets_the_cpus_of_its_flavor(place: Place) -> None:
    """One vCPU is one CPU: `nproc` reports it, and three busy processes get no more."""
    assert place.machine.run("nproc").strip() == "1"
    assert place.machine.run("grep", "-c", "^processor", "/proc/cpuinfo").strip() == "1"
    assert float(place.machine.run("python3", "-c", BUSY)) <= 1.05


def test_nodes_are_bound_to_their_flavors(context: SiteContext, site_host: Callable[[str], Any]) -> None:
    """The site's own nodes have as many CPUs as their flavor, or the machine's, and their flavor's memory."""
    assert context.site.cloud is not None
    flavors = {f.name: f for f in context.site.cloud.flavors}
    node = context.site.cloud.instances[0]
    flavor = flavors[node.flavor]
    machine = os.cpu_count()
    assert machine is not None
    assert int(site_host(node.name).check_output("nproc")) == min(flavor.vcpus, machine)
    total = int(site_host(node.name).check_output("awk '/^MemTotal/ {print $2}' /proc/meminfo"))
    assert total == flavor.memory.mebibytes * 1024


def test_memory_ends_at_the_flavor(place: Place) -> None:
    """Who takes more than the flavor has is killed; the instance goes on."""
    assert place.memory() == RAM
    boot = place.machine.run("cat", "/proc/1/stat").split()[21]
    greedy = f"data = b'x' * ({2 * RAM} << 20)"
    with pytest.raises(AssertionError) as caught:
        place.machine.run("python3", "-c", greedy)
    # killed, so it could not say anything
    assert str(caught.value).endswith(f"{greedy}: ")
    assert place.machine.run("cat", "/proc/1/stat").split()[21] == boot
    assert place.machine.run("systemctl", "is-active", "ssh").strip() == "active"


def test_view_of_the_limits_comes_back(place: Place) -> None:
    """Killed, the service that shows the limits in /proc is back with all its files."""
    place.machine.run("systemctl", "kill", "--signal=KILL", "lxcfs")
    wait_until(lambda: "MemTotal" in place.machine.run("sh", "-c", "cat /proc/meminfo || true"))
    wait_until(lambda: place.memory() == RAM)


def test_user_data_is_done_by_cloud_init(place: Place) -> None:
    """Users, keys, files, commands and the host name are what the user data say."""
    status = place.machine.run("cloud-init", "status", "--long")
    assert "status: done" in status
    assert "DataSourceConfigDrive" in status
    assert place.machine.run("cat", "/home/ada/.ssh/authorized_keys").strip() == ADA_KEY
    for home in ("/root", "/home/debian"):
        assert place.key in place.machine.run("cat", f"{home}/.ssh/authorized_keys")
    assert place.machine.run("cat", "/etc/strata-test") == "written by cloud-init"
    assert place.machine.run("stat", "-c", "%a", "/etc/strata-test").strip() == "640"
    assert place.machine.run("cat", "/srv/commands-ran").strip() == HOST_NAME
    assert place.machine.run("cat", "/proc/sys/kernel/hostname").strip() == HOST_NAME
    assert place.machine.run("cat", "/etc/hostname").strip() == HOST_NAME


def test_console_log_and_serial_console(place: Place) -> None:
    """The console log holds the boot and what is written to the serial console; one to type on is refused, with nova's
    reason."""
    compute = place.tenant.cloud.compute

    def log() -> str:
        return str(compute.get_server_console_output(place.machine.id)["output"])

    wait_until(lambda: "Cloud-init v." in log())
    line = f"written to the serial console: {uuid.uuid4().hex}"
    assert line not in log()
    place.machine.run("tee", "/dev/console", stdin=f"{line}\n")
    wait_until(lambda: line in log().splitlines())
    with pytest.raises(openstack.exceptions.BadRequestException, match="Unavailable console type serial"):
        compute.create_console(place.machine.id, console_type="serial")


def test_resize_keeps_the_root_and_revert_goes_back(place: Place) -> None:
    """A resized instance has the new memory and its old files; reverted, the old memory."""
    compute = place.tenant.cloud.compute
    token = uuid.uuid4().hex
    for path in ("/root/resized", "/var/lib/kubelet/resized"):
        place.machine.run("tee", path, stdin=token)
    compute.resize_server(place.machine.id, place.larger)
    place.settled("VERIFY_RESIZE")
    try:
        # the limit holds at once; it is shown as soon as the system is up
        wait_until(lambda: place.memory() == LARGER_RAM)
        assert int(place.machine.run("nproc")) == min(2, os.cpu_count() or 1)
        assert place.machine.run("cat", "/root/resized", "/var/lib/kubelet/resized") == token * 2
    finally:
        compute.revert_server_resize(place.machine.id)
        place.settled("ACTIVE")
    assert place.machine.run("cat", "/root/resized") == token
    wait_until(lambda: place.memory() == RAM)


def test_smaller_disk_is_refused(place: Place) -> None:
    """A resize that would cut the disk is refused at once, with nova's reason."""
    with pytest.raises(openstack.exceptions.BadRequestException, match="Flavor's disk is smaller"):
        place.tenant.cloud.compute.resize_server(place.machine.id, place.smaller_disk)
    place.settled("ACTIVE")


def test_rescue_has_the_root_mounted(place: Place) -> None:
    """A rescue system repairs the instance's root; afterwards the instance has what it wrote."""
    compute = place.tenant.cloud.compute
    token = uuid.uuid4().hex
    compute.rescue_server(place.machine.id)
    try:
        place.settled("RESCUE")
        assert place.machine.run("cat", "/mnt/etc/strata-test") == "written by cloud-init"
        place.machine.run("tee", "/mnt/root/repaired", stdin=token)
    finally:
        compute.unrescue_server(place.machine.id)
        place.settled("ACTIVE")
    assert place.machine.run("cat", "/root/repaired") == token


def test_pause_freezes_and_stop_stops(place: Place) -> None:
    """What runs inside stops while the instance is paused and goes on afterwards; stopped, nothing runs."""
    compute, machine = place.tenant.cloud.compute, place.machine
    machine.run("touch", TICKS)
    machine.run("systemd-run", "--quiet", "sh", "-c", TICK)
    # read from outside: nothing can be started in what is frozen
    seen = Path(f"/proc/{machine.process()}/root{TICKS}")

    def ticks() -> int:
        return seen.stat().st_size

    begin = ticks()
    pace = wait_until(lambda: ticks() >= begin + 10)
    compute.pause_server(machine.id)
    place.settled("PAUSED")
    frozen = ticks()
    with pytest.raises(AssertionError, match="not within"):
        wait_until(lambda: ticks() != frozen, 2 * pace)
    compute.unpause_server(machine.id)
    place.settled("ACTIVE")
    wait_until(lambda: ticks() > frozen)
    compute.stop_server(machine.id)
    place.settled("SHUTOFF")
    assert machine.process() == 0
    compute.start_server(machine.id)
    place.settled("ACTIVE")
    machine.run("true")


def test_suspend_is_refused(place: Place) -> None:
    """What the hypervisor cannot do fails with a reason, and the instance stays as it was."""
    place.tenant.cloud.compute.suspend_server(place.machine.id)
    wait_until(lambda: bool(place.failures("suspend")), BUILD_SECONDS)
    place.settled("ACTIVE")
    place.machine.run("true")
