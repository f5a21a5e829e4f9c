"""Two runs at once, what belongs to nobody, a machine that is rebooted: `up` comes to the same end, and leaves nothing
over. Runs that are killed in each layer: test_change.py, whose changes they interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata.access.helm import helm
from strata.access.podman import podman, site_containers
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata_bench.waiting import eventually
from strata_lab.podman_service import socket_path
from strata_services.portal.service import SERVICE as PORTAL

from .commands import psql, strata, strata_json, strata_line
from .healing import nothing_left_over, up_again
from .killing import kill_at, workers
from .lab_site import require_lab
from .orphans import orphans

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext) -> None:
    """Other sites are not ours to break."""
    require_lab(context)


@pytest.fixture(scope="module", autouse=True)
def whole_again(context: SiteContext, request: pytest.FixtureRequest) -> Iterator[None]:
    """However a test ends, the site is as `up` makes it; each that passes has seen to it."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        strata_json(context, "up", "--no-verify")


def test_two_runs_at_once(context: SiteContext) -> None:
    """The second does not wait for the first: it is refused, and names the first one's command, process and start."""
    command = strata_line(context, "up", "--layer", "cloud", "--no-verify")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as first:
        try:
            mark = f'"pid": {first.pid}'
            eventually(lambda: mark in (context.paths.root / "lock").read_text(), 120, "the first runs", pause=0.05)
            first.send_signal(signal.SIGSTOP)  # so that it has not ended before the others begin
            # no `destroy`: had the first one failed, it would be carried out
            with ThreadPoolExecutor() as pool:
                refused = list(
                    pool.map(lambda more: strata("up", context.site_file, *more), ((), ("--layer", "hosts")))
                )
            for second in refused:
                assert second.returncode == 2
                assert f"`strata up {context.site.name}` (process {first.pid}, since " in second.stderr
            assert first.poll() is None, "the first must not notice"
            first.send_signal(signal.SIGCONT)
            assert first.stderr is not None
            said = first.stderr.read()
            assert first.wait() == 0, said
        finally:
            first.kill()


def test_a_killed_run_is_resumed(context: SiteContext) -> None:
    """A release is missing, and the run that installs it is killed: the next one completes it and leaves nothing over.

    test_change.py (nightly) kills runs in each layer."""
    helm(context, "uninstall", PORTAL.name, "--namespace", PORTAL.namespace_of(context.site), "--wait")
    kill_at(context, rf"platform: \d+ s, creating release {PORTAL.name}")
    up_again(context)
    assert not workers(context)
    _, status, error = strata_json(context, "status")
    assert status, error
    assert not status["drift"]["drift"], status["drift"]
    assert {row["found"] for row in status["objects"] if row["object"] == f"release {PORTAL.name}"} == {"deployed"}


def test_what_belongs_to_no_one_is_named(
    context: SiteContext, cloud: Connection, kubectl: Callable[..., str], tmp_path: Path
) -> None:
    """`doctor` names one thing of each kind that it compares, but servers, with reason and remedy; and nothing else."""
    assert nothing_left_over(context)
    with orphans(context, cloud, kubectl, tmp_path) as planted:
        status, answer, error = strata_json(context, "doctor")
        assert status == 1, error
        assert {row["object"] for row in answer["leftovers"]} == planted
        assert all(row["why"] and row["fix"] for row in answer["leftovers"])
    assert nothing_left_over(context)


def power_cut(context: SiteContext) -> None:
    """Ends all processes of the site at once: first those that would notice, and tell podman."""
    containers = json.loads(podman("container", "inspect", *site_containers(context.site.name)))
    socket = str(socket_path(context.site.name)).encode()
    ends = [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if socket in _command(process) and b"podman" in _command(process)
    ]
    for container in containers:
        file = Path(container["ConmonPidFile"])
        ends += [int(file.read_text())] if file.exists() else []
    ends += [container["State"]["Pid"] for container in containers if container["State"]["Pid"]]
    for pid in ends:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    socket_path(context.site.name).unlink(missing_ok=True)


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.nightly
def test_reboot(
    context: SiteContext,
    cloud: Connection,
    kubectl: Callable[..., str],
    site_host: Callable[[str], Host],
    request: pytest.FixtureRequest,
) -> None:
    """No process of the site is left and podman still calls all containers running; `up` brings back site and data."""
    before = {s.name: s.id for s in cloud.compute.servers(all_projects=True)}
    services = hosts_with("postgresql", context.site, context.cloud_outputs)[0].name
    mark = f"reboot_{int(time.time())}"
    configmap = mark.replace("_", "-")

    def postgresql(statement: str) -> str:
        return psql(site_host(services), "postgres", statement)

    def cleanup() -> None:
        strata_json(context, "up", "--no-verify")  # after a failure nothing may answer
        postgresql(f"drop table if exists {mark}")
        kubectl("delete", "configmap", configmap, "--ignore-not-found")

    request.addfinalizer(cleanup)
    postgresql(f"create table {mark} as values (42)")
    kubectl("create", "configmap", configmap, "--from-literal=answer=42")
    site_host(services).check_output("sync")
    power_cut(context)
    up_again(context)
    assert {s.name: s.id for s in cloud.compute.servers(all_projects=True)} == before
    eventually(lambda: postgresql(f"table {mark}") == "42", 120, "the table is there with its row")
    assert kubectl("get", "configmap", configmap, "-o", "jsonpath={.data.answer}") == "42"
    assert strata_json(context, "status")[1]["drift"]["drift"] == []
