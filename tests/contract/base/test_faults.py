"""The role base on a host whose clock is wrong or whose package mirror is gone: what the operator reads."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.access.podman import podman
from strata.progress import Silent
from strata.site.paths import REPOSITORY
from strata_bench.local_playbook import run_locally
from strata_bench.node_container import BOOTED
from strata_lab.controller import BOOT
from strata_lab.images import ensure_node_image

VARIABLES = {
    "strata_domain": "faults.example.org",
    "strata_site": "faults",
    "base_releases": ["12"],
    "base_container_packages": ["cowsay"],
}
PREPARE = f"{BOOTED}; mkdir -p /root/.ssh; cat >/root/.ssh/authorized_keys"
DEAD_MIRROR = (
    "rm -f /etc/apt/sources.list.d/*; rm -rf /var/lib/apt/lists/*; "
    "echo 'deb http://127.0.0.1:9/debian bookworm main' >/etc/apt/sources.list"
)


@dataclass(frozen=True)
class Machine:
    """A host in a container.

    Args:
        name: of host and container.
        address: of it.
        directory: with the SSH key.
    """

    name: str
    address: str
    directory: Path

    def run(self, script: str) -> str:
        """Runs a shell script; returns what it printed."""
        return podman("exec", self.name, "sh", "-c", script)

    def base(self) -> str:
        """Runs the role, which must fail; returns its output without line breaks."""
        playbook = self.directory / "playbook.yml"
        playbook.write_text(json.dumps([{"hosts": "all", "roles": ["base"]}]))
        host = {"ansible_host": self.address, "ansible_user": "root"}
        options = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR"
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "ansible-playbook"),
                *("--inventory", f"{self.name},", str(playbook), "--private-key", str(self.directory / "key")),
                *("--ssh-common-args", options, "--extra-vars", json.dumps(VARIABLES | host)),
            ],
            cwd=REPOSITORY,
            env=os.environ | {"ANSIBLE_INVENTORY_ENABLED": "host_list", "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stdout + done.stderr
        return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A host that runs, and accepts a key."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip("needs podman, and root, who reaches its networks")
    directory, name = tmp_path_factory.mktemp("base"), f"base-faults-{secrets.token_hex(3)}"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "key")], check=True)
    try:
        podman("run", "--detach", "--name", name, "--hostname", name, *BOOT, ensure_node_image("12", Silent()))
        key = (directory / "key.pub").read_bytes()
        podman("exec", "--interactive", name, "sh", "-c", PREPARE, stdin=key)
        address = podman("inspect", "--format", "{{.NetworkSettings.IPAddress}}", name).strip()
        yield Machine(name, address, directory)
    finally:
        podman("rm", "--force", "--volumes", "--time", "0", "--ignore", name)


@pytest.mark.nightly
def test_a_mirror_that_is_gone_is_named(machine: Machine) -> None:
    """What Ansible's module states of it is "Failed to update apt cache after 1 retries: "."""
    machine.run(DEAD_MIRROR)
    output = machine.base()
    assert f"{machine.name} cannot install cowsay: " in output
    assert "Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)" in output
    assert "correct /etc/apt/sources.list or sources.list.d there" in output


@pytest.mark.parametrize(("shift", "words"), [("- 3600", "s behind"), ("+ 3600", "s ahead of")])
def test_a_wrong_clock_is_refused_before_anything_is_installed(tmp_path: Path, shift: str, words: str) -> None:
    """A container has its host's clock, so that `date` gives another time. The deployment host is not in UTC."""
    program = tmp_path / "bin" / "date"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $(( $(/bin/date +%s) {shift} ))\n")
    program.chmod(0o755)
    name = platform.node().partition(".")[0]
    role = {"name": "base", "tasks_from": "preflight"}
    play = {"hosts": "all", "tasks": [{"ansible.builtin.include_role": role}]}
    variables = VARIABLES | {"base_releases": ["12", "13"]}
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "TZ": "America/New_York"}
    done = run_locally(tmp_path / "playbook.yml", name, play, variables, environment)
    output = " ".join(done.stdout.split())
    assert done.returncode == 2, output
    assert re.search(rf"the clock of {name} is (3[56][0-9]{{2}}) s", output), output
    assert f"{words} the deployment host's, 300 s are allowed" in output
    assert "Read the installed packages" not in output
