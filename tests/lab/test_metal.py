"""metal comes up on machines that Strata does not run, loses, replaces and gains some, and leaves them running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.models.hosts import Machine
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

from .commands import strata, up
from .machines import Machines, ready_nodes

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("metal")]
NAME = "metal"
GATEWAY = "198.18.13.1/24"
"""The deployment host, as `access` of the site file names it."""
TOKEN_FILE = "etc/kubernetes/bootstrap-kubelet.conf"
"""Exists while a node joins."""
NEW: dict[str, Any] = {
    "name": "worker-3",
    "address": "198.18.13.23",
    "institution": "south",
    "zone": "south-1",
    "roles": ["kube_node"],
}


@dataclass(frozen=True)
class Rehearsal:
    """The site and its machines.

    Args:
        file: a copy of its site file, to edit.
        state: its state directory.
        environment: names the directory above that.
        machines: containers.
    """

    file: Path
    state: Path
    environment: dict[str, str]
    machines: Machines

    def edit(self, workers: list[dict[str, Any]]) -> None:
        """Replaces the site's workers."""
        content = yaml.safe_load(self.file.read_text())
        hosts = content["hosts"]
        hosts["machines"] = [m for m in hosts["machines"] if "kube_node" not in m["roles"]] + workers
        self.file.write_text(yaml.safe_dump(content, sort_keys=False))

    def workers(self) -> list[dict[str, Any]]:
        """Those of the site file."""
        machines: list[dict[str, Any]] = yaml.safe_load(self.file.read_text())["hosts"]["machines"]
        return [m for m in machines if "kube_node" in m["roles"]]

    def nodes(self) -> dict[str, bool]:
        """Kubernetes nodes, and whether they are ready."""
        return ready_nodes(self.state / "kubeconfig")

    def up(self, what: str, *options: str) -> dict[str, Any]:
        """Brings the site up; prints how long that took."""
        done = up(self.file, *options, environment=self.environment)
        print(f"{what}: {done['seconds']:.0f} s")
        return done


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """metal with its machines on, which accept the site's key as their owners would have it."""
    directory = tmp_path_factory.mktemp(NAME)
    file = directory / "site" / NAME / "site.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{find_site(NAME).read_text()}allow_substitutes: true\n")
    environment = {"STRATA_STATE_DIR": str(directory)}
    made = strata("up", file, "--layer", "cloud", environment=environment)
    assert made.returncode == 0, made.stderr
    site = load_site(file)
    machines = Machines(f"{NAME}-machines", GATEWAY, site.hosts.ssh_user, directory / NAME / "ssh_key.pub")
    try:
        machines.open()
        for machine in site.hosts.machines:
            machines.start(machine)
        yield Rehearsal(file, directory / NAME, environment, machines)
    finally:
        machines.close()


def test_machines_come_up_join_are_replaced_leave_and_are_left(rehearsal: Rehearsal) -> None:
    """One story, because each step needs the cluster that the one before left."""
    _comes_up(rehearsal)
    _a_worker_joins_by_an_entry_in_the_file(rehearsal)
    _a_lost_machine_is_replaced(rehearsal)
    _a_worker_leaves_and_a_lost_one_too(rehearsal)
    _destroy_leaves_the_machines_as_they_are(rehearsal)


def _comes_up(rehearsal: Rehearsal) -> None:
    planned = strata("plan", rehearsal.file, environment=rehearsal.environment)
    assert planned.returncode == 0, planned.stderr
    assert "the site has machines only" in planned.stdout
    first = rehearsal.up("first up")
    assert first["changed"] > 0
    assert rehearsal.nodes() == dict.fromkeys(("control-1", "worker-1", "worker-2"), True)
    verified = strata("verify", rehearsal.file, environment=rehearsal.environment)
    assert verified.returncode == 0, verified.stdout[-5000:]
    again = rehearsal.up("thorough", "--thorough")
    assert again["changed"] == 0, again
    seen = strata("status", rehearsal.file, "--json", environment=rehearsal.environment)
    assert seen.returncode == 0, seen.stdout[-3000:] + seen.stderr


def _a_worker_joins_by_an_entry_in_the_file(rehearsal: Rehearsal) -> None:
    """Its machine loses power while it joins: `up` states which one, and the same command goes on when it is back."""
    rehearsal.machines.start(Machine.model_validate(NEW))
    rehearsal.edit([*rehearsal.workers(), NEW])
    token = rehearsal.machines.root(NEW["name"]) / TOKEN_FILE
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(strata, "up", rehearsal.file, "--no-verify", environment=rehearsal.environment)
        while not token.exists():
            assert not joining.done(), joining.result().stderr
            time.sleep(0.01)
        rehearsal.machines.cut_power(NEW["name"])
        failed = joining.result()
    assert failed.returncode == 1, failed.stdout
    assert NEW["name"] in failed.stderr, failed.stderr
    rehearsal.machines.power_on(NEW["name"])
    rehearsal.up("a worker joins")
    assert rehearsal.nodes() == dict.fromkeys(("control-1", "worker-1", "worker-2", "worker-3"), True)


def _a_lost_machine_is_replaced(rehearsal: Rehearsal) -> None:
    """With the same name and address; its new host key needs approval."""
    lost = next(m for m in load_site(rehearsal.file).hosts.machines if m.name == "worker-2")
    rehearsal.machines.lose(lost.name)
    rehearsal.machines.start(lost)
    refused = strata("up", rehearsal.file, "--no-verify", environment=rehearsal.environment)
    assert refused.returncode != 0
    assert f"strata up {NAME} --replace worker-2" in refused.stderr, refused.stderr
    rehearsal.up("a worker is replaced", "--replace", "worker-2")
    assert all(rehearsal.nodes().values()), rehearsal.nodes()
    assert "worker-2" in rehearsal.nodes()
    assert rehearsal.up("thorough", "--thorough")["changed"] == 0


def _a_worker_leaves_and_a_lost_one_too(rehearsal: Rehearsal) -> None:
    """The one is drained and reset, and runs on without a kubelet; of the other nothing is left to drain."""
    rehearsal.machines.lose("worker-1")
    rehearsal.edit([m for m in rehearsal.workers() if m["name"] == "worker-2"])
    planned = strata("plan", rehearsal.file, environment=rehearsal.environment)
    for name in ("worker-1", "worker-3"):
        assert f"node {name} (" in planned.stdout, planned.stdout
    rehearsal.up("two workers leave")
    assert rehearsal.nodes() == {"control-1": True, "worker-2": True}
    assert rehearsal.machines.run("worker-3", "sh", "-c", "systemctl is-active kubelet || true").strip() == "inactive"
    assert rehearsal.machines.run("worker-3", "sh", "-c", "ls /etc/kubernetes 2>/dev/null || true") == ""
    verified = strata("verify", rehearsal.file, environment=rehearsal.environment)
    assert verified.returncode == 0, verified.stdout[-5000:]


def _destroy_leaves_the_machines_as_they_are(rehearsal: Rehearsal) -> None:
    gone = strata("destroy", rehearsal.file, "--yes", environment=rehearsal.environment)
    assert gone.returncode == 0, gone.stderr
    assert "services-1 (198.18.13.11): postgresql" in gone.stderr, gone.stderr
    assert {entry.name for entry in rehearsal.state.iterdir()} == {"ssh_key", "ssh_key.pub", "known_hosts"}
    assert rehearsal.machines.run("worker-2", "systemctl", "is-active", "kubelet").strip() == "active"
    assert rehearsal.machines.run("services-1", "systemctl", "is-active", "kine").strip() == "active"
