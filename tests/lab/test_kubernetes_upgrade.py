"""A newer release of Strata brings the next minor version of Kubernetes: `up` upgrades a cluster of machines in place.

The newer release is a copy of this one with another version in versions.yaml. Its programs are those of this release
with that version written over theirs, in a mirror directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strata.progress import Silent
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.toolchain import bin_directory, ensure, load_versions
from strata.toolchain.versions import architecture

from .commands import STRATA, strata, up
from .machines import Machines
from .test_upgrade import NOT_OF_A_RELEASE

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("metal")]
NAME = "metal"
GATEWAY = "198.18.13.1/24"
COMPONENT = "kubernetes"
NODES = {"control-1", "worker-1", "worker-2"}


@dataclass(frozen=True)
class Cluster:
    """A cluster of machines, and the next release.

    Args:
        file: its site file.
        state: its state directory.
        environment: of this release.
        newer: of the newer one.
        version: of Kubernetes in the newer one.
        machines: containers.
    """

    file: Path
    state: Path
    environment: dict[str, str]
    newer: dict[str, str]
    version: str
    machines: Machines

    def kubectl(self, *arguments: str) -> str:
        """Runs kubectl as the site's administrator."""
        command = [str(bin_directory() / "kubectl"), f"--kubeconfig={self.state / 'kubeconfig'}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Node objects by name."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", "nodes", "--output=json"))["items"]
        return {node["metadata"]["name"]: node for node in items}

    def versions(self) -> set[str]:
        """Of the kubelets, the API server and the control plane's images."""
        kubelets = {node["status"]["nodeInfo"]["kubeletVersion"] for node in self.nodes().values()}
        server = json.loads(self.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
        pods = json.loads(self.kubectl("get", "pods", "--namespace=kube-system", "--output=json"))["items"]
        images = {
            c["image"].rpartition(":")[2] for p in pods for c in p["spec"]["containers"] if "/kube-" in c["image"]
        }
        return {version.removeprefix("v") for version in kubelets | {server} | images}


def newer_release(directory: Path, version: str) -> Path:
    """A copy of this release with that version of Kubernetes."""
    copy = directory / "strata"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*NOT_OF_A_RELEASE))
    file = copy / "versions.yaml"
    before = load_versions().tools["kubelet"].version
    lines = file.read_text().splitlines(keepends=True)
    begin = lines.index(f"  {COMPONENT}:\n")
    assert lines[begin + 1] == f'    version: "{before}"\n'
    lines[begin + 1] = f'    version: "{version}"\n'
    file.write_text("".join(lines))
    return copy


def mirror(directory: Path, before: str, version: str) -> Path:
    """A mirror directory with the programs of Kubernetes, which call themselves another version."""
    assert len(before) == len(version)
    component = load_versions().components[COMPONENT]
    place = directory / "mirror" / COMPONENT / version / f"linux-{architecture()}"
    place.mkdir(parents=True)
    sums = []
    for name, tool in ensure(list(component.binaries), Silent()).items():
        content = tool.path.read_bytes().replace(b"v" + before.encode(), b"v" + version.encode())
        (place / name).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (place / "SHA256SUMS").write_text("".join(sums))
    return directory / "mirror"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """metal as this release brings it up, with a Deployment and its PodDisruptionBudget."""
    directory = tmp_path_factory.mktemp("upgrade")
    before = load_versions().tools["kubelet"].version
    major, minor, patch = before.split(".")
    version = f"{major}.{int(minor) + 1}.{patch}"
    file = directory / "site" / NAME / "site.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{find_site(NAME).read_text()}allow_substitutes: true\n")
    environment = {"STRATA_STATE_DIR": str(directory / "state")}
    newer = environment | {
        "PYTHONPATH": str(newer_release(directory, version) / "src"),
        "STRATA_MIRROR": str(mirror(directory, before, version)),
    }
    made = strata("up", file, "--layer", "cloud", environment=environment)
    assert made.returncode == 0, made.stderr
    site = load_site(file)
    state = directory / "state" / NAME
    machines = Machines(f"{NAME}-machines", GATEWAY, site.hosts.ssh_user, state / "ssh_key.pub")
    try:
        machines.open()
        for machine in site.hosts.machines:
            machines.start(machine)
        up(file, environment=environment)
        yield Cluster(file, state, environment, newer, version, machines)
    finally:
        machines.close()


def test_upgrade(cluster: Cluster) -> None:
    """Asked for first, killed half way, resumed, verified, unchanged; the way back is refused."""
    before = load_versions().tools["kubelet"].version
    assert cluster.versions() == {before}
    workers = {name: node["metadata"]["uid"] for name, node in cluster.nodes().items()}

    planned = strata("plan", cluster.file, environment=cluster.newer)
    assert f"worker-1 is upgraded (Kubernetes {before} → {cluster.version})" in planned.stdout, planned.stdout
    refused = strata("up", cluster.file, "--no-verify", environment=cluster.newer)
    assert refused.returncode == 4, refused.stderr
    assert cluster.versions() == {before}

    _killed_while_a_worker_is_drained(cluster)
    done = up(cluster.file, "--yes", environment=cluster.newer)
    assert done["changed"] > 0
    assert cluster.versions() == {cluster.version}
    nodes = cluster.nodes()
    assert {name: node["metadata"]["uid"] for name, node in nodes.items()} == workers, "a node joined again"
    assert not [name for name, node in nodes.items() if node["spec"].get("unschedulable")]
    verified = strata("verify", cluster.file, environment=cluster.newer)
    assert verified.returncode == 0, verified.stdout[-5000:]
    assert up(cluster.file, "--thorough", environment=cluster.newer)["changed"] == 0

    back = strata("up", cluster.file, "--yes", "--no-verify", environment=cluster.environment)
    assert back.returncode == 1
    assert f"{before}: the cluster runs {cluster.version}" in back.stderr, back.stderr
    assert cluster.versions() == {cluster.version}


def _killed_while_a_worker_is_drained(cluster: Cluster) -> None:
    """The control plane is upgraded by then, the other worker waits."""
    command = [STRATA, "up", str(cluster.file), "--yes", "--no-verify"]
    environment = {**os.environ, **cluster.newer}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as run:
        begin = time.monotonic()
        while not _cordoned(cluster):
            assert run.poll() is None, run.stdout.read() if run.stdout else ""
            time.sleep(0.2)
        run.send_signal(signal.SIGKILL)
        print(f"until the first worker is cordoned: {time.monotonic() - begin:.0f} s")
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in cluster.nodes().values()} == {
        f"v{load_versions().tools['kubelet'].version}",
        f"v{cluster.version}",
    }


def _cordoned(cluster: Cluster) -> list[str]:
    try:
        return [name for name, node in cluster.nodes().items() if node["spec"].get("unschedulable")]
    except subprocess.SubprocessError:
        return []  # its API server is being replaced
