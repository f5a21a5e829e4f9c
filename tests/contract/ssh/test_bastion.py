"""Hosts behind a bastion, with OpenSSH at both ends: messages where one is down or has another key."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.access import ssh
from strata.access.podman import podman
from strata.engine.keys import ensure_ssh_key
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site_file.inventories import find_site
from strata_bench.node_container import BOOTED
from strata_lab.controller import BOOT
from strata_lab.images import ensure_node_image

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("podman") is None, reason="needs podman, and root, who reaches its networks"
)
BASTION, WORKER = "edge-1", "worker-1"
DOWN, UP = "ip link set eth0 down", "ip link set eth0 up"
PREPARE = (
    f"{BOOTED}; "
    "useradd --create-home debian; mkdir /home/debian/.ssh; cat >/home/debian/.ssh/authorized_keys; "
    "chown -R debian: /home/debian"
)


@dataclass(frozen=True)
class Hosts:
    """Two containers with sshd.

    Args:
        context: a site whose instances they are.
        containers: instance to container.
    """

    context: SiteContext
    containers: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.containers[name]

    def new_host_key(self, name: str) -> None:
        """Gives a host another key, as another machine at its address has."""
        self.run(name, "rm /etc/ssh/ssh_host_*; ssh-keygen -q -A; systemctl restart ssh")

    def run(self, name: str, script: str) -> None:
        """Runs a shell script on a host."""
        podman("exec", self[name], "sh", "-c", script)


@pytest.fixture
def hosts(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """campus with its bastion and a worker, both known."""
    monkeypatch.setattr(ssh, "remember_console_keys", lambda *_: None)  # there is no cloud
    context = SiteContext.load(find_site("campus"))
    ensure_ssh_key(context.paths)
    public = context.paths.ssh_key.with_suffix(".pub").read_text()
    image, suffix = ensure_node_image("12", Silent()), secrets.token_hex(3)
    containers = {name: f"ssh-bastion-{suffix}-{name}" for name in (BASTION, WORKER)}
    try:
        outputs = {}
        for name, container in containers.items():
            podman("run", "--detach", "--name", container, *BOOT, image)
            podman("exec", "--interactive", container, "sh", "-c", PREPARE, stdin=public.encode())
            address = podman("inspect", "--format", "{{.NetworkSettings.IPAddress}}", container).strip()
            outside = address if name == BASTION else None
            outputs[name] = InstanceOutput(
                id=name, name=name, address=address, flavor="cpu.small", roles=("kube_node",), floating_ip=outside
            )
        CloudOutputs(instances=outputs, networks={}).save(context.paths)
        monkeypatch.setattr(ssh, "SSH_SECONDS", 30.0)
        ssh.wait_for_ssh(context, Silent())
        monkeypatch.setattr(ssh, "SSH_SECONDS", 1.0)
        yield Hosts(context, containers)
    finally:
        for container in containers.values():
            podman("rm", "--force", "--volumes", "--time", "0", "--ignore", container)


def refused(hosts: Hosts) -> UserError:
    """The error of the wait for SSH."""
    with pytest.raises(UserError) as raised:
        ssh.wait_for_ssh(hosts.context, Silent())
    return raised.value


@pytest.mark.nightly
def test_each_fault_names_its_host_and_is_over_once_it_is_fixed(hosts: Hosts) -> None:
    """A host behind the bastion is never blamed for the bastion."""
    hosts.run(WORKER, DOWN)
    error = refused(hosts)
    assert WORKER in error.message
    assert "behind the bastion edge-1" in error.message
    assert f"{BASTION} (" not in error.message
    hosts.run(WORKER, UP)
    ssh.wait_for_ssh(hosts.context, Silent())

    hosts.run(BASTION, DOWN)
    error = refused(hosts)
    assert error.message.startswith(f"no SSH on {BASTION} (")
    assert "openstack console log show edge-1" in str(error.fix)
    hosts.run(BASTION, UP)
    ssh.wait_for_ssh(hosts.context, Silent())
    for name in (BASTION, WORKER):
        hosts.new_host_key(name)
        error = refused(hosts)
        assert error.message.startswith(f"{name} (")
        assert "another SSH host key" in error.message
        _, command, _ = str(error.fix).split("; ")
        subprocess.run(shlex.split(command.partition(": ")[2]), check=True, capture_output=True)
        ssh.wait_for_ssh(hosts.context, Silent())
