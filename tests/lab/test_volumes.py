"""A volume on the NFS server under pods of two nodes: locks, a killed server, pods that end while it is down."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from strata.catalogue.site_volumes import MountedVolume, volumes
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ImageOutputs
from strata.toolchain import bin_directory
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest
from strata_bench.waiting import eventually

pytestmark = pytest.mark.nightly

HEALED_SECONDS = 180.0
"""How long a client may take until it continues after a restart; the server's grace period is 15 s."""
NOBODY = 65534
WAIT = "import time; time.sleep(10**6)"
LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')"
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""
WRITE_SLOWLY = """
import hashlib, os, sys, time
digest = hashlib.sha256()
with open(sys.argv[1], "wb", buffering=0) as file:
    for part in range(150):
        data = os.urandom(1 << 18)
        digest.update(data)
        file.write(data)
        time.sleep(0.05)
        if part == 20:
            print("begun", flush=True)
    os.fsync(file)
print(digest.hexdigest(), flush=True)
"""
DIGEST = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"


@dataclass(frozen=True)
class Users:
    """One pod on each of two nodes, with the same volume."""

    context: SiteContext
    kubectl: Kubectl
    image: Any
    volume: MountedVolume
    nodes: tuple[str, str]
    names: tuple[str, str]
    file: str

    def request(self, name: str, node: str, program: str, *arguments: str) -> PodRequest:
        """A pod with the volume."""
        return PodRequest(
            name=name,
            image=self.image,
            command=["python3", "-u", "-c", program, *arguments],
            node=node,
            tolerations=[{"operator": "Exists"}],
            claim=self.volume.claim,
            identity=(self.volume.owner or NOBODY, self.volume.group),
        )

    def python(self, pod: int, program: str, *arguments: str) -> str:
        """What a program prints in one of the pods."""
        command = ["exec", self.names[pod], "--", "python3", "-c", program, self.file, *arguments]
        return str(self.kubectl("--namespace", self.volume.namespace, *command, check=False)).strip()

    def spawn(self, pod: int, program: str) -> subprocess.Popen[str]:
        """A program that goes on in one of the pods."""
        kubectl = [str(bin_directory() / "kubectl"), "--kubeconfig", str(self.context.paths.kubeconfig)]
        where = ["--namespace", self.volume.namespace, "exec", "--stdin", self.names[pod], "--"]
        command = [*kubectl, *where, "python3", "-u", "-c", program, self.file]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def users(context: SiteContext, kubectl: Kubectl, images: ImageOutputs) -> Iterator[Users]:
    """Pods with the first writable volume of the site."""
    site = context.site
    nodes = [host.name for host in hosts_with("kube_node", site, context.cloud_outputs)]
    writable = [volume for volume in volumes(site) if not volume.read_only]
    if not writable or len(nodes) < 2:
        pytest.skip("needs a volume and two nodes")
    token = secrets.token_hex(3)
    names = (f"volume-one-{token}", f"volume-two-{token}")
    made = Users(
        context, kubectl, images.images["pod-base"], writable[0], (nodes[0], nodes[1]), names, f"/volume/.test-{token}"
    )
    try:
        for name, node in zip(names, made.nodes, strict=True):
            pods.start(kubectl, made.volume.namespace, made.request(name, node, WAIT))
        yield made
        made.python(0, "import os, sys; os.remove(sys.argv[1])")
    finally:
        for name in names:
            pods.delete(kubectl, made.volume.namespace, name)


@pytest.fixture
def server(context: SiteContext, site_host: Callable[[str], Any]) -> Any:
    """The host of the NFS server."""
    return site_host(hosts_with("nfs_server", context.site, context.cloud_outputs)[0].name)


def test_locks_hold_between_pods_of_two_nodes_and_over_a_killed_server(users: Users, server: Any) -> None:
    holder = users.spawn(0, HOLD)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    assert "locked" not in users.python(1, LOCK)
    server.check_output("systemctl kill --signal=KILL nfs-ganesha")
    # waits until the server is back and its grace period is over
    assert "BlockingIOError" in users.python(1, LOCK)
    holder.stdin.close()
    assert holder.wait(HEALED_SECONDS) == 0
    eventually(lambda: "locked" in users.python(1, LOCK), HEALED_SECONDS, "the lock is free")


def test_a_write_continues_over_a_killed_server(users: Users, server: Any) -> None:
    writer = users.spawn(0, WRITE_SLOWLY)
    assert writer.stdout
    assert writer.stdout.readline() == "begun\n"
    server.check_output("systemctl kill --signal=KILL nfs-ganesha")
    written = writer.stdout.readline().strip()
    assert writer.wait(HEALED_SECONDS) == 0
    assert users.python(1, DIGEST) == written


def test_a_mount_outlives_a_restart_of_the_kubelet(users: Users, site_host: Callable[[str], Any]) -> None:
    before = users.python(0, DIGEST)
    site_host(users.nodes[0]).check_output("systemctl restart kubelet")
    eventually(lambda: users.python(0, DIGEST) == before, HEALED_SECONDS, "the pod has its volume", pause=1)


def test_a_pod_can_be_deleted_while_the_server_is_down(users: Users, server: Any) -> None:
    name = f"volume-stuck-{secrets.token_hex(3)}"
    program = "import sys, time\nwhile True:\n    open(sys.argv[1], 'a').write('x')\n    time.sleep(0.1)\n"
    pods.start(users.kubectl, users.volume.namespace, users.request(name, users.nodes[1], program, users.file))
    server.check_output("systemctl stop nfs-ganesha")
    try:
        time.sleep(2)
        options = ("--namespace", users.volume.namespace, "delete", "pod", name, f"--timeout={HEALED_SECONDS:.0f}s")
        users.kubectl(*options, timeout=HEALED_SECONDS + 30)
        listed = users.kubectl("--namespace", users.volume.namespace, "get", "pods", "--output", "json")
        assert name not in {pod["metadata"]["name"] for pod in json.loads(listed)["items"]}
    finally:
        server.check_output("systemctl start nfs-ganesha")
        with contextlib.suppress(AssertionError):
            pods.delete(users.kubectl, users.volume.namespace, name)
