"""Kubespray for real, on containers that play machines; runs where the mirror directory has it and its downloads."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.installers.kubespray.source import mirrored_archive, pinned
from strata.models.hosts import Machine
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.toolchain.resolve import mirror_directory
from strata_bench.node_container import BOOTED

from .commands import strata, up
from .machines import Machines, ready_nodes

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("kubespray")]
NAME = "kubespray-rehearsal"
GATEWAY = "198.18.14.1"
NODES = ("control-1", "worker-1")
JOINING = {"name": "worker-2", "address": "198.18.14.22", "roles": ["kube_node"]}
UP_SECONDS = 2700.0
"""Of one `up` with Kubespray, beside other work: minutes for each node."""
CHECKSUMS = {
    "kubelet": "kubelet_binary_checksum",
    "kubectl": "kubectl_binary_checksum",
    "kubeadm": "kubeadm_binary_checksum",
    "etcd": "etcd_binary_checksum",
    "cni-plugins": "cni_binary_checksum",
    "runc": "runc_binary_checksum",
    "containerd": "containerd_archive_checksum",
    "crictl": "crictl_binary_checksum",
    "nerdctl": "nerdctl_archive_checksum",
}
"""Beginning of a download's file name to the variable with its digest: the files may be builds of others."""
CONTROL_PLANES: list[dict[str, Any]] = [
    {"name": f"control-{n}", "address": f"198.18.14.1{n + 1}", "roles": ["kube_control_plane"]} for n in (2, 3, 4)
]
"""The first two join; the last replaces one of them."""
MEMBERS = "set -a; . /etc/etcd.env; etcdctl member list"
LEFTOVERS = ("/etc/kubernetes", "/etc/etcd.env", "/var/lib/etcd", "/usr/local/bin/kubelet", "/etc/cni")
EVICTION = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
IN_CONTAINERS: dict[str, Any] = {
    "containerd_base_runtime_spec_rlimit_nofile": 20000,
    "containerd_extra_runtime_args": {"restrict_oom_score_adj": True},
    # complete, because the template for containerd 1.7 has no defaults for it
    "containerd_runc_runtime": {
        "name": "runc",
        "type": "io.containerd.runc.v2",
        "engine": "",
        "root": "",
        "base_runtime_spec": "cri-base.json",
        "options": {"Root": "", "SystemdCgroup": "false", "BinaryName": "/usr/local/bin/runc"},
    },
    "containerd_use_systemd_cgroup": False,
    "enable_dns_autoscaler": False,
    # the disk is the deployment host's, which may be fuller than kubelet's limits for a node's own
    "eviction_hard": EVICTION,
    "eviction_hard_control_plane": dict(EVICTION),
    "image_command_tool": "crictl",
    "kube_proxy_conntrack_max_per_core": 0,
    "kubeadm_ignore_preflight_errors": ["SystemVerification"],
    "kubelet_fail_cgroup_v1": False,
    "kubelet_fail_swap_on": False,
    "kubelet_feature_gates": ["KubeletInUserNamespace=true"],
    "kubelet_swap_behavior": "NoSwap",
    "loadbalancer_apiserver_localhost": False,
}
"""What nodes that are containers need; and no images of others, which the site's registry does not have."""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # the base's name
        """Nothing."""


@dataclass(frozen=True)
class Rehearsal:
    """The site and its machines.

    Args:
        file: its site file, to edit.
        state: its state directory.
        environment: names the directory above that.
        machines: containers.
    """

    file: Path
    state: Path
    environment: dict[str, str]
    machines: Machines

    def edit(self, machines: list[dict[str, Any]]) -> None:
        """Replaces the site's machines."""
        content = yaml.safe_load(self.file.read_text())
        content["hosts"]["machines"] = machines
        self.file.write_text(yaml.safe_dump(content, sort_keys=False))

    def listed(self) -> list[dict[str, Any]]:
        """The machines of the site file."""
        machines: list[dict[str, Any]] = yaml.safe_load(self.file.read_text())["hosts"]["machines"]
        return machines

    def start(self, machine: dict[str, Any]) -> None:
        """Starts a machine, with the package index that its image is missing."""
        self.machines.start(Machine.model_validate(machine))
        # only then: systemd mounts /tmp, where apt keeps keys
        self.machines.run(machine["name"], "sh", "-c", BOOTED)
        self.machines.run(machine["name"], "apt-get", "update")

    def nodes(self) -> dict[str, bool]:
        """Kubernetes nodes, and whether they are ready."""
        return ready_nodes(self.state / "kubeconfig")

    def up(self, *options: str) -> dict[str, Any]:
        """Brings the site up."""
        return up(self.file, *options, environment=self.environment, seconds=UP_SECONDS)

    def drifted(self) -> list[str]:
        """The objects that `strata status` calls drifted."""
        done = strata("status", self.file, "--json", environment=self.environment)
        return [row["object"] for row in json.loads(done.stdout)["drift"]["drift"]]

    def logs(self) -> dict[str, float]:
        """Logs of Kubespray's playbooks, and when each was written last."""
        return {file.name: file.stat().st_mtime for file in (self.state / "logs").glob("kubespray-*.log")}


@pytest.fixture(scope="module")
def downloads() -> Path:
    """The folder of Kubespray's downloads, one folder for each host."""
    mirror = mirror_directory()
    folder = None if mirror is None else mirror / "kubespray" / pinned()[0] / "files"
    if mirrored_archive() is None or folder is None or not folder.is_dir():
        pytest.skip(f"no Kubespray with its downloads in $STRATA_MIRROR/kubespray/{pinned()[0]} (docs/toolchain.md)")
    if not Path("/proc/modules").exists():
        pytest.skip("this kernel has no modules: Kubespray loads nf_tables for kube-proxy")
    return folder


def variables(downloads: Path, port: int) -> dict[str, Any]:
    """What makes Kubespray take the downloads from this machine, whatever their versions."""
    address = f"http://{GATEWAY}:{port}"
    settings: dict[str, Any] = {"github_url": f"{address}/github.com", "dl_k8s_io_url": f"{address}/dl.k8s.io"}
    for file in sorted(f for f in downloads.rglob("*") if f.is_file()):
        variable = next(name for begin, name in CHECKSUMS.items() if file.name.startswith(begin))
        settings[variable] = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        if variable.startswith(("etcd", "containerd", "runc", "cni")):
            settings[f"{variable.partition('_')[0]}_version"] = file.parent.name.removeprefix("v")
    return settings


@pytest.fixture(scope="module")
def rehearsal(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A site like metal, on etcd by Kubespray, with its machines on."""
    directory = tmp_path_factory.mktemp(NAME)
    content = yaml.safe_load(find_site("metal").read_text().replace("198.18.13.", "198.18.14."))
    content |= {"name": NAME, "domain": f"{NAME}.example.org", "allow_substitutes": True}
    content["hosts"]["machines"] = [
        {"name": "services-1", "address": "198.18.14.11", "roles": ["nfs_server", "registry", "load_balancer"]},
        {"name": "control-1", "address": "198.18.14.12", "roles": ["kube_control_plane"]},
        {"name": "worker-1", "address": "198.18.14.21", "roles": ["kube_node"]},
    ]
    section: dict[str, Any] = {"network_plugin": "routes", "images": "site"}
    content["cluster"] |= {"installer": "kubespray", "datastore": "etcd", "kubespray": section}
    file = directory / "site" / NAME / "site.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    environment = {"STRATA_STATE_DIR": str(directory)}
    made = strata("up", file, "--layer", "cloud", environment=environment)
    assert made.returncode == 0, made.stderr
    site = load_site(file)
    machines = Machines(f"{NAME}-machines", f"{GATEWAY}/24", site.hosts.ssh_user, directory / NAME / "ssh_key.pub")
    prepared = Rehearsal(file, directory / NAME, environment, machines)
    try:
        machines.open()
        for machine in prepared.listed():
            prepared.start(machine)
        handler = functools.partial(_Quiet, directory=str(downloads))
        with http.server.ThreadingHTTPServer((GATEWAY, 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            section["variables"] = IN_CONTAINERS | variables(downloads, server.server_port)
            file.write_text(yaml.safe_dump(content, sort_keys=False))
            yield prepared
            server.shutdown()
    finally:
        machines.close()


def test_kubespray_installs_repairs_scales_and_removes(rehearsal: Rehearsal) -> None:
    """One story, because each step needs the cluster that the one before left."""
    _comes_up(rehearsal)
    _unchanged_starts_nothing(rehearsal)
    _a_stopped_kubelet_is_repaired(rehearsal)
    _a_worker_joins_and_leaves(rehearsal)
    _a_reset_leaves_machines_for_a_new_cluster(rehearsal)
    _a_lost_control_plane_is_replaced(rehearsal)


def _comes_up(rehearsal: Rehearsal) -> None:
    rehearsal.up()
    assert rehearsal.nodes() == dict.fromkeys(NODES, True)
    verified = strata("verify", rehearsal.file, environment=rehearsal.environment)
    assert verified.returncode == 0, verified.stdout[-5000:]


def _unchanged_starts_nothing(rehearsal: Rehearsal) -> None:
    before = rehearsal.logs()
    assert rehearsal.up()["changed"] == 0
    assert rehearsal.logs() == before
    assert rehearsal.drifted() == []


def _a_stopped_kubelet_is_repaired(rehearsal: Rehearsal) -> None:
    rehearsal.machines.run("worker-1", "systemctl", "stop", "kubelet")
    assert "worker-1: kubelet" in rehearsal.drifted()
    rehearsal.up()
    assert rehearsal.machines.run("worker-1", "systemctl", "is-active", "kubelet").strip() == "active"


def _a_worker_joins_and_leaves(rehearsal: Rehearsal) -> None:
    before = rehearsal.listed()
    rehearsal.start(JOINING)
    rehearsal.edit([*before, JOINING])
    rehearsal.up()
    assert rehearsal.nodes() == dict.fromkeys((*NODES, "worker-2"), True)
    assert "kubespray-scale.log" in rehearsal.logs()
    rehearsal.edit(before)
    rehearsal.up()
    assert rehearsal.nodes() == dict.fromkeys(NODES, True)
    assert "kubespray-remove-node.log" in rehearsal.logs()


def _a_reset_leaves_machines_for_a_new_cluster(rehearsal: Rehearsal) -> None:
    done = strata("kubespray", rehearsal.file, "--reset", "--yes", environment=rehearsal.environment)
    assert done.returncode == 0, done.stderr
    print(done.stderr.splitlines()[-1])
    assert not (rehearsal.state / "kubeconfig").exists()
    for name in NODES:
        left = rehearsal.machines.run(name, "sh", "-c", f"ls -d {' '.join(LEFTOVERS)} 2>/dev/null || true")
        assert left == "", name
    again = strata("kubespray", rehearsal.file, "--reset", "--yes", environment=rehearsal.environment)
    assert (again.returncode, "there is no cluster to reset" in again.stderr) == (2, True), again.stderr
    added = CONTROL_PLANES[:2]
    for machine in added:
        rehearsal.start(machine)
    rehearsal.edit([*rehearsal.listed(), *added])
    rehearsal.up()
    assert rehearsal.nodes() == dict.fromkeys((*NODES, "control-2", "control-3"), True)
    assert rehearsal.up()["changed"] == 0


def _a_lost_control_plane_is_replaced(rehearsal: Rehearsal) -> None:
    *_, lost, replacement = CONTROL_PLANES
    rehearsal.machines.lose(lost["name"])
    rehearsal.start(replacement)
    others = [machine for machine in rehearsal.listed() if machine["name"] != lost["name"]]
    rehearsal.edit([*others, replacement])
    rehearsal.up("--remove", f"host/{lost['name']}")
    assert rehearsal.nodes() == dict.fromkeys((*NODES, "control-2", replacement["name"]), True)
    members = rehearsal.machines.run("control-1", "sh", "-c", MEMBERS)
    assert [address in members for address in (lost["address"], replacement["address"])] == [False, True], members
    assert rehearsal.up()["changed"] == 0
