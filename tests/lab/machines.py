"""Containers that play the machines of a site: systemd, SSH, a user with sudo."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from pathlib import Path

from strata.access.podman import podman
from strata.models.hosts import Machine
from strata.progress import Silent
from strata.toolchain import bin_directory
from strata_lab import controller, host
from strata_lab.copy_in import copy_in
from strata_lab.images import ensure_node_image

RELEASE = "12"
VOLUMES = {"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}
"""Overlay does not stack on a container's own overlay root."""
SSHD = "AuthorizedKeysFile /etc/ssh/keys .ssh/authorized_keys\nPermitRootLogin no\n"
SUDOERS = "{user} ALL=(ALL) NOPASSWD: ALL\n"


class Machines:
    """The machines of one site, on a network of their own.

    Args:
        name: begins the names of all that podman holds; no site's, so that no site takes them for its own.
        gateway: the deployment host's address in their network, as in 198.18.13.1/24.
        user: login name, with sudo.
        key: file with the public key that this user accepts.
    """

    def __init__(self, name: str, gateway: str, user: str, key: Path) -> None:
        self.name, self.user, self.key = name, user, key
        self.interface = ipaddress.ip_interface(gateway)
        self.running: dict[str, list[str]] = {}

    def open(self) -> None:
        """Makes the network and prepares the host."""
        self.image = ensure_node_image(RELEASE, Silent())
        host.prepare(self.name)
        addresses = ("--subnet", str(self.interface.network), "--gateway", str(self.interface.ip))
        podman("network", "create", "--disable-dns", *addresses, self.name)

    def start(self, machine: Machine) -> None:
        """Starts a machine with an empty disk and new host keys."""
        name = self._container(machine.name)
        volumes = [f"{name}-{volume}" for volume in VOLUMES]
        self.running[machine.name] = volumes
        mounts = [
            word
            for volume, target in zip(volumes, VOLUMES.values(), strict=True)
            for word in ("--volume", f"{volume}:{target}:exec,dev,suid")
        ]
        podman(
            *("create", "--name", name, "--hostname", machine.name, *controller.BOOT, "--device", "/dev/kmsg"),
            *("--network", f"{self.name}:ip={machine.address}", *mounts, self.image, "/sbin/init"),
        )
        copy_in(
            name,
            {
                f"etc/sudoers.d/{self.user}": SUDOERS.format(user=self.user),
                "etc/ssh/keys": self.key.read_text(),
                "etc/ssh/sshd_config.d/keys.conf": SSHD,
            },
        )
        podman("start", name)
        podman("exec", name, "useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", self.user)

    def lose(self, name: str) -> None:
        """Removes a machine with its disk."""
        podman("rm", "--force", "--ignore", "--time", "0", self._container(name))
        podman("volume", "rm", "--force", *self.running.pop(name))

    def cut_power(self, name: str) -> None:
        """Ends all processes of a machine at once; its disk stays."""
        podman("kill", "--signal=KILL", self._container(name))

    def power_on(self, name: str) -> None:
        """Starts a machine with the disk that it had."""
        podman("start", self._container(name))

    def root(self, name: str) -> Path:
        """Directory of the deployment host that shows a running machine's disk."""
        process = podman("container", "inspect", "--format={{.State.Pid}}", self._container(name)).strip()
        return Path(f"/proc/{process}/root")

    def run(self, name: str, *command: str) -> str:
        """What a command prints on a machine, past SSH."""
        return podman("exec", self._container(name), *command)

    def close(self) -> None:
        """Removes the machines and their network."""
        for name in list(self.running):
            self.lose(name)
        podman("network", "rm", "--force", self.name)
        host.restore(self.name)

    def _container(self, name: str) -> str:
        return f"{self.name}-{name}"


def ready_nodes(kubeconfig: Path) -> dict[str, bool]:
    """Kubernetes nodes, and whether they are ready."""
    command = [str(bin_directory() / "kubectl"), f"--kubeconfig={kubeconfig}", "get", "nodes", "-ojson"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    return {
        node["metadata"]["name"]: any(
            c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"]
        )
        for node in listed["items"]
    }
