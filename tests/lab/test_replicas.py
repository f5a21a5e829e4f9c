"""A second site beside the first, made without editing anything that could collide, while the first one's `up` runs;
one goes, the other stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from strata.access.podman import container_status, podman, site_containers, site_networks, site_volumes
from strata.site.context import SiteContext
from strata.site.paths import state_directory
from strata_bench.waiting import eventually
from strata_lab.container_recovery import LEASES
from strata_lab.controller import container_name
from strata_lab.ports import EVERYWHERE

from .commands import strata, strata_json, strata_line, up
from .lab_site import require_lab

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

NAME = "replica"
"""Of the second site; nobody's own."""


@pytest.fixture(scope="module")
def second(context: SiteContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteContext]:
    """The cloud layer of a site like the first, with one instance to save memory; destroyed afterwards.

    Meanwhile the first site's `up` runs: both succeed, and there is nothing to do for the first one.
    """
    require_lab(context)
    directory = tmp_path_factory.mktemp("sites")
    done = strata("new", NAME, "--like", context.site_file, "--directory", directory)
    assert done.returncode == 0, done.stderr
    file = directory / NAME / "site.yaml"
    _one_instance(file)
    made = SiteContext.load(file)
    try:
        with ThreadPoolExecutor() as pool:
            first = pool.submit(up, context.site_file)
            status, answer, error = strata_json(made, "up", "--layer", "cloud", "--no-verify")
        assert status == 0, error or answer
        assert first.result()["changed"] == 0
        yield made
    finally:
        if made.paths.root.exists():
            destroy(file)


def destroy(file: Path) -> None:
    """Removes a site; must succeed."""
    done = strata("destroy", file, "--yes")
    assert done.returncode == 0, done.stderr


def cut_off_destroy(site: SiteContext) -> None:
    """Starts `strata destroy` and kills it with all its children while it removes the controller."""
    with subprocess.Popen(
        strata_line(site, "destroy", "--yes"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        while run.poll() is None:
            if container_status(container_name(site.site)) in (None, "removing"):
                os.killpg(run.pid, signal.SIGKILL)
                break
    assert run.returncode == -signal.SIGKILL, "it ended before it was killed"


def _one_instance(file: Path) -> None:
    """Leaves one plain instance and nothing above the hosts; the networks stay as `strata new` chose them."""
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    instance = content["cloud"]["instances"][0] | {"roles": ["nfs_server"]}
    content["cloud"]["instances"] = [instance]
    content["hosts"] = {"nfs": content["hosts"]["nfs"]}
    for key in ("cluster", "platform"):
        content.pop(key, None)
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def networks(context: SiteContext) -> list[str]:
    """Subnets of the site's podman networks."""
    names = site_networks(context.site.name)
    return [s["subnet"] for n in json.loads(podman("network", "inspect", *names)) for s in n["subnets"]]


def containers(context: SiteContext) -> dict[str, tuple[str, str]]:
    """Id and start of each container of the site; another start means that it was restarted."""
    inspected = json.loads(podman("container", "inspect", *site_containers(context.site.name)))
    return {c["Name"]: (c["Id"], c["State"]["StartedAt"]) for c in inspected}


def ports(context: SiteContext) -> set[tuple[str, str]]:
    """Address and port of this machine on which a process of the site listens, or that podman publishes for it."""
    names = site_containers(context.site.name)
    pids = {pid for name in names for pid in podman("top", name, "hpid").split()[1:]}
    said = subprocess.run(["ss", "-H", "-ltunp"], capture_output=True, text=True, check=True).stdout
    bound = set()
    for line in said.splitlines():
        if pids & set(re.findall(r"pid=(\d+)", line)):
            address, _, port = line.split()[4].rpartition(":")
            bound.add((address.partition("%")[0], port))
    for container in json.loads(podman("container", "inspect", *names)):
        for bindings in (container["HostConfig"]["PortBindings"] or {}).values():
            bound |= {(binding["HostIp"] or "*", binding["HostPort"]) for binding in bindings}
    return bound


def test_both_are_up_and_share_nothing(
    context: SiteContext, second: SiteContext, cloud: Connection, site_host: Callable[[str], Host]
) -> None:
    """Networks, names, ports, state and secrets differ; each cloud has its own instances, and both answer."""
    assert not set(networks(context)) & set(networks(second))
    assert not set(containers(context)) & set(containers(second))
    eventually(lambda: bool(ports(context) and ports(second)), 30, "instances of both find their metadata")
    assert not ports(context) & ports(second)
    assert not {address for address, _ in ports(context) | ports(second)} & {*EVERYWHERE, "[::]"}
    assert context.paths.root != second.paths.root
    ours, others = dict(context.secrets.known()), dict(second.secrets.known())
    assert set(ours) & set(others)
    assert not set(ours.values()) & set(others.values())
    assert context.site.cloud is not None
    assert second.cloud_outputs is not None
    servers = {s.name: s.id for s in cloud.compute.servers(all_projects=True)}
    assert set(servers) >= {i.name for i in context.site.cloud.instances}
    (instance,) = second.cloud_outputs.instances.values()
    assert instance.id not in servers.values()
    key = ["-i", str(second.paths.ssh_key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]

    def answers() -> bool:
        line = ["ssh", *key, "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", f"root@{instance.address}", "hostname"]
        return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip() == instance.name

    eventually(answers, 60, "the second site's instance answers to its own key")
    # the first site's instance of the same name is another machine
    same = site_host(instance.name)
    assert same.check_output("hostname") == instance.name
    addresses = same.check_output("hostname -I").split()
    assert addresses
    assert instance.address not in addresses


def test_one_goes_and_the_other_stays(context: SiteContext, second: SiteContext, cloud: Connection) -> None:
    """After `destroy` of the second, cut off and called again, nothing of it is left; the first one's ran on."""
    before = containers(context)
    kept = networks(context)
    cut_off_destroy(second)
    destroy(second.site_file)
    assert [*site_containers(NAME), *site_networks(NAME), *site_volumes(NAME)] == []
    assert not second.paths.root.exists()
    assert not list(LEASES.glob(f"strata-{NAME}-*"))
    assert not Path("/run/strata", NAME).exists()
    assert containers(context) == before
    assert networks(context) == kept
    assert all(s.status == "ACTIVE" for s in cloud.compute.servers(all_projects=True))
    status, answer, error = strata_json(context, "status")
    assert status == 0, error or answer


def test_another_site_of_the_machine_is_not_taken_over(context: SiteContext) -> None:
    """`strata new` refuses the name of a site that has state."""
    file, known = context.site_file.read_bytes(), state_directory() / "sites.json"
    done = strata("new", context.site.name, "--like", "lab", "--directory", context.paths.root / "none")
    assert done.returncode == 2
    assert f"a site called {context.site.name} is or was up" in done.stderr
    assert not (context.paths.root / "none").exists()
    assert context.site_file.read_bytes() == file
    assert str(context.paths.root) not in (known.read_text() if known.exists() else "")
