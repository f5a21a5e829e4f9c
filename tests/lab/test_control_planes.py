"""A cluster grows from one control plane to three while it runs, loses one, and gets it back."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests
import yaml

from strata.site.context import SiteContext
from strata.toolchain import bin_directory
from strata_bench.waiting import eventually

from .commands import strata, up
from .member_project import NAME, Place, campus_in_the_lab, member_project

if TYPE_CHECKING:
    from openstack.connection import Connection

pytestmark = pytest.mark.nightly
CONTROL_PLANES = {"control-1", "control-2", "control-3"}
WORKER = "worker-1"
INSTANCES = 6
AWAY_SECONDS = 10.0
"""The longest that the API may be away when a control plane is gone."""
SETTLED_SECONDS = 180.0


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project with a member; both are removed afterwards."""
    with member_project(context, cloud, tmp_path_factory.mktemp(NAME), INSTANCES) as project:
        yield project


def site_file(context: SiteContext, directory: Path, control_planes: set[str]) -> Path:
    """campus with these control planes, a worker, and no more than they need."""
    content = campus_in_the_lab(context, {"edge-1", "storage-1", WORKER, *control_planes})
    del content["hosts"]["nfs"], content["platform"]
    cloud = content["cloud"]
    cloud["flavors"] = cloud["flavors"][:1]
    for instance in cloud["instances"]:
        instance["roles"] = [role for role in instance["roles"] if role != "nfs_server"]
    file = directory / NAME / "site.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    return file


def kubectl(place: Place, *arguments: str) -> str:
    """Runs kubectl as the site's administrator, once."""
    command = [str(bin_directory() / "kubectl"), f"--kubeconfig={place.state / 'kubeconfig'}", "--request-timeout=20s"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def ready(place: Place) -> set[str]:
    """Nodes that are ready."""
    nodes: list[dict[str, Any]] = json.loads(kubectl(place, "get", "nodes", "--output", "json"))["items"]
    return {
        node["metadata"]["name"]
        for node in nodes
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
    }


def server(place: Place) -> str:
    """The API's address in the administrator's kubeconfig."""
    content = yaml.safe_load((place.state / "kubeconfig").read_text())
    return str(urlsplit(content["clusters"][0]["cluster"]["server"]).hostname)


@contextmanager
def longest_absence(address: str) -> Iterator[list[float]]:
    """Asks the API every quarter of a second; the list then has the longest time between two answers, in seconds."""
    absences: list[float] = []
    end = threading.Event()

    def ask() -> None:
        last, longest = time.monotonic(), 0.0
        while not end.is_set():
            try:
                # a new connection each time, as kubectl makes them; whose certificate it is, is not asked here
                answered = requests.get(f"https://{address}:6443/readyz", verify=False, timeout=5).ok  # noqa: S501
            except requests.RequestException:
                answered = False
            now = time.monotonic()
            longest = max(longest, now - last)
            last = now if answered else last
            end.wait(0.25)
        absences.append(longest)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield absences
    finally:
        end.set()
        thread.join()


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_one_control_plane_becomes_three_and_one_is_lost_and_replaced(
    context: SiteContext, cloud: Connection, place: Place, tmp_path: Path
) -> None:
    """Clients reach the API at the load balancer, whichever control plane is there."""
    network: Any = cloud.network
    single = site_file(context, tmp_path, {"control-1"})
    up(single, environment=place.environment)
    assert ready(place) == {"control-1", WORKER}

    three = site_file(context, tmp_path, CONTROL_PLANES)
    up(three, environment=place.environment)
    assert ready(place) == {*CONTROL_PLANES, WORKER}
    assert server(place) in {ip.floating_ip_address for ip in network.ips(project_id=place.project)}
    again = up(three, "--thorough", environment=place.environment)
    assert again["changed"] == 0, again

    # the first one, which made the cluster's keys
    lost = next(
        s for s in cloud.compute.servers(all_projects=True) if s.project_id == place.project and s.name == "control-1"
    )
    with longest_absence(server(place)) as absence:
        cloud.compute.delete_server(lost)
        cloud.compute.wait_for_delete(lost, wait=SETTLED_SECONDS)
        eventually(lambda: ready(place) == {"control-2", "control-3", WORKER}, SETTLED_SECONDS, "its node is gone")
    assert absence[0] < AWAY_SECONDS
    kubectl(place, "create", "namespace", "written-without-it")

    up(three, environment=place.environment)
    assert ready(place) == {*CONTROL_PLANES, WORKER}
    kubectl(place, "get", "namespace", "written-without-it")
    assert up(three, "--thorough", environment=place.environment)["changed"] == 0
    gone = strata("destroy", three, "--yes", environment=place.environment)
    assert gone.returncode == 0, gone.stderr
