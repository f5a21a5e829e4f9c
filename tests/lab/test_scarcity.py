"""A full disk, a taken port, an interrupted registry, no memory: reported clearly, nothing half done, `up` resumes."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from strata.access.podman import podman, site_containers, site_networks
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.paths import SitePaths
from strata_bench.waiting import eventually
from strata_lab.memory import available
from strata_lab.network.container import container_name as network_agent
from strata_lab.network.metadata import PROXY_PORT

from .commands import strata, strata_json
from .lab_site import require_lab
from .scarce import (
    FILLER,
    REGISTRIES,
    fill,
    is_whole,
    journal_cursor,
    kill_in_upload,
    make_space,
    notes,
    remove_image,
    run,
    small_disk,
    up,
)

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

STORAGE = "/var/lib/docker-registry"


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext) -> None:
    """Other sites are not ours to starve."""
    require_lab(context)


@pytest.fixture
def with_role(context: SiteContext, site_host: Callable[[str], Host]) -> Callable[[str], tuple[str, Host]]:
    """`with_role("registry")` → name of the first host with the role, and the host."""

    def find(role: str) -> tuple[str, Host]:
        name = hosts_with(role, context.site, context.cloud_outputs)[0].name
        return name, site_host(name)

    return find


@pytest.fixture
def afterwards() -> Iterator[ExitStack]:
    """What is put back after the test, the last first."""
    with ExitStack() as stack:
        yield stack


def test_full_disk_and_taken_port_of_a_host(
    context: SiteContext, with_role: Callable[[str], tuple[str, Host]], afterwards: ExitStack
) -> None:
    """One after the other: the host with the file system, or the port with process and unit, is named, nothing is half
    written, and `up` goes on; no drift is left. In one test since each is a whole playbook."""
    name, host = with_role("load_balancer")
    directory, thief = "/usr/local/share/ca-certificates", "strata-test-thief"
    afterwards.callback(put_back, context, host)
    afterwards.callback(host.run, f"systemctl stop {thief}")
    afterwards.enter_context(small_disk(host, directory, 2))
    make_space(host, directory)
    run(host, f"rm {directory}/*.crt")
    fill(host, directory)
    failed = up(context, "--layer", "hosts")
    assert failed.status == 1
    assert f"{name} has no disk space left at {directory} (0 B of 2 MiB free)" in failed.error
    assert f"on {name}, `du -xh" in failed.error
    assert "docs/troubleshooting.md#the-disk-is-full" in failed.error
    assert run(host, f"ls -A {directory}").split() == [FILLER], "half a file is worse than none"
    bad, _ = notes(context)
    assert [(o["object"], o["found"]) for o in bad] == [(f"{name}: room", f"none: {directory} (0 B of 2 MiB free)")]
    make_space(host, directory)

    run(host, f"systemctl stop haproxy; systemd-run --quiet --unit {thief} python3 -m http.server 443")
    eventually(lambda: host.socket("tcp://0.0.0.0:443").is_listening, 20, "the thief listens")
    failed = up(context, "--layer", "hosts")
    assert failed.status == 1
    assert f"{name}: port 443, which haproxy needs, is taken by python3 (process " in failed.error
    assert f"`systemctl disable --now {thief}.service` frees the port" in failed.error
    assert "docs/troubleshooting.md#a-port-or-address-is-already-taken" in failed.error
    run(host, f"systemctl stop {thief}")

    assert up(context, "--layer", "hosts").status == 0
    assert host.service("haproxy").is_running
    status, answer, error = strata_json(context, "status")
    assert (status, answer["drift"]["drift"]) == (0, []), error


def put_back(context: SiteContext, host: Host) -> None:
    """Has haproxy running as `up` left it, where the test did not get so far."""
    if not host.service("haproxy").is_running:
        up(context, "--layer", "hosts")


def test_full_disk_of_the_registry(
    context: SiteContext, with_role: Callable[[str], tuple[str, Host]], afterwards: ExitStack
) -> None:
    """The image, the registry, its host and its file system are named; no half image; with space it is pushed."""
    name, host = with_role("registry")
    before = context.image_outputs
    afterwards.callback(run, host, f"systemctl restart {REGISTRIES}")
    afterwards.enter_context(small_disk(host, STORAGE, 16))
    make_space(host, STORAGE)
    remove_image(context, host, "pause")
    fill(host, STORAGE)
    failed = up(context, "--layer", "cluster")
    assert failed.status == 1
    assert f"{name} has no disk space left at {STORAGE}" in failed.error
    assert "did not take kubernetes/" in failed.error
    assert "docs/troubleshooting.md#the-disk-is-full" in failed.error
    make_space(host, STORAGE)
    assert up(context, "--layer", "cluster").status == 0
    assert is_whole(context, host, "pause")
    assert context.image_outputs == before


def test_registry_that_dies_while_it_is_pushed_to(
    context: SiteContext, with_role: Callable[[str], tuple[str, Host]], afterwards: ExitStack
) -> None:
    """`up` waits until it is there again, pushes again, and the image is whole."""
    _, host = with_role("registry")
    afterwards.callback(up, context, "--layer", "cluster")
    remove_image(context, host, "coredns")
    with ThreadPoolExecutor() as threads:
        killed = threads.submit(kill_in_upload, context, host, "coredns")
        done = up(context, "--layer", "cluster")
        killed.result()
    assert done.status == 0, done.error
    assert is_whole(context, host, "coredns")


def test_port_taken_on_this_machine(context: SiteContext, afterwards: ExitStack) -> None:
    """Where instances find their metadata: network, port and process are named before anything is touched."""
    assert context.site.cloud is not None
    network = context.site.cloud.networks[0]
    agent = network_agent(context.site.name)
    afterwards.callback(strata_json, context, "up", "--layer", "cloud", "--no-verify")
    podman("stop", "--time", "5", agent)
    with socket.create_server((str(network.gateway), PROXY_PORT)):
        failed = up(context, "--layer", "cloud")
        assert failed.status == 2
        assert f"cloud.networks.{network.name}: port {PROXY_PORT} of its gateway {network.gateway}" in failed.error
        assert "taken on this machine by " in failed.error
        assert "docs/troubleshooting.md#a-port-or-address-is-already-taken" in failed.error
        assert podman("container", "inspect", "--format", "{{.State.Status}}", agent).strip() == "exited"
    assert up(context, "--layer", "cloud").status == 0
    assert podman("container", "inspect", "--format", "{{.State.Status}}", agent).strip() == "running"
    eventually(lambda: answers_at(str(network.gateway)), 20, "the metadata service listens again")


def answers_at(address: str) -> bool:
    """Whether somebody listens where instances find their metadata."""
    done = subprocess.run(
        ["ss", "--no-header", "-ltn", f"sport = :{PROXY_PORT}"], capture_output=True, text=True, check=True
    )
    return address in done.stdout


@pytest.mark.parametrize("prefix", [26, 32])
def test_address_taken_on_this_machine(context: SiteContext, afterwards: ExitStack, prefix: int) -> None:
    """Another device has a part of the control network, or one address of it: network, key and device are named."""
    assert context.site.cloud is not None
    assert context.site.cloud.control_network is not None
    network = context.site.cloud.control_network
    device, address = "strata-test0", network[-2]
    command = ["ip", "link", "add", device, "type", "bridge"]
    subprocess.run(command, check=True, capture_output=True)
    afterwards.callback(subprocess.run, ["ip", "link", "del", device], check=True)
    for step in (("address", "add", f"{address}/{prefix}", "dev", device), ("link", "set", device, "up")):
        subprocess.run(["ip", *step], check=True, capture_output=True)
    failed = up(context)
    assert failed.status == 2
    assert f"cloud.control_network: {network} is in use on this machine: " in failed.error
    assert f" {device}" in failed.error
    assert "docs/troubleshooting.md#a-port-or-address-is-already-taken" in failed.error


def test_memory_of_an_instance(
    context: SiteContext, with_role: Callable[[str], tuple[str, Host]], afterwards: ExitStack
) -> None:
    """The kernel ends a service because memory ran out: systemd starts it again, status notes it at the host, `up` goes
    on."""
    name, host = with_role("registry")
    hog = "strata-test-hog"
    begin, ended = journal_cursor(host), ended_processes(context, name)[0]
    before = host.run("systemctl show -p MainPID --value docker-registry").stdout.strip()
    afterwards.callback(host.run, f"systemctl stop {hog}; systemctl reset-failed {hog}")
    # the one that the kernel is to take first
    run(host, f"echo 1000 >/proc/{before}/oom_score_adj")
    code = "x = [bytearray(b'x' * (64 << 20)) for _ in range(1000)]"
    run(host, f'systemd-run --quiet --unit {hog} python3 -c "{code}"')

    def again() -> bool:
        show = "systemctl show -p MainPID -p ActiveState --value docker-registry"
        pid, active = host.run(show).stdout.split()
        return active == "active" and pid not in ("0", before)

    eventually(again, 60, "systemd starts the registry again")
    eventually(lambda: host.run(f"systemctl is-active {hog}").stdout.strip() != "active", 60, "the kernel ends the hog")
    eventually(lambda: notes(context)[0] == [], 60, "all is healthy")
    more, noted = ended_processes(context, name)
    assert more > ended, "an earlier test's"
    assert "docker-registry.service" in noted
    said = run(host, f"journalctl --unit docker-registry --after-cursor='{begin}' --output=cat")
    assert "Scheduled restart job" in said
    assert up(context, "--layer", "hosts").status == 0
    status, answer, error = strata_json(context, "status")
    assert (status, answer["drift"]["drift"]) == (0, []), error


def ended_processes(context: SiteContext, name: str) -> tuple[int, str]:
    """How many processes the kernel ended on a host because memory ran out, and the note that shows so."""
    mine = [note for note in notes(context)[1] if note.startswith(f"{name}: the kernel ended ")]
    number = re.search(r"\((\d+) processes\)", mine[0]) if mine else None
    return (int(number[1]), mine[0]) if number else (0, "")


def test_memory_of_this_machine(context: SiteContext, tmp_path: Path) -> None:
    """More instances than this machine can carry: reported with what is there and what is needed, nothing is made."""
    name = f"{context.site.name}-big"
    made = strata("new", name, "--like", "lab", "--directory", tmp_path)
    assert made.returncode == 0, made.stderr
    file = tmp_path / name / "site.yaml"
    document = yaml.safe_load(file.read_text())
    cloud = document["cloud"]
    number = int(available() * 4) + 20
    cloud["instances"] += [
        {
            "name": f"more-{i}",
            "flavor": "cpu.small",
            "image": "debian-12",
            "network": "platform",
            "roles": ["kube_node"],
        }
        for i in range(number)
    ]
    cloud["project"]["quota"] = {"instances": 500, "cores": 2000, "memory": "2 TiB"}
    for hypervisor in cloud["hypervisors"]:
        hypervisor.update({"vcpus": 2000, "memory": "2 TiB", "disk": "20 TiB"})
    file.write_text(yaml.safe_dump(document))
    done = strata("up", file, seconds=120)
    assert done.returncode == 2, done.stderr
    assert "GiB of memory are left on this machine; what is missing of site " in done.stderr
    assert f"(OpenStack, {number + 4} instances) uses at least " in done.stderr
    assert "docs/troubleshooting.md#there-is-no-memory-left" in done.stderr
    assert site_containers(name) == []
    assert not SitePaths(name).root.exists()
    assert site_networks(name) == []
