"""What a killed run left: locks and plugins; and reasons in words."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.stacks import recovery as pulumi_recovery
from strata.stacks import refusals
from strata.stacks.events import Failure

URN = "urn:pulumi:lab::strata-cloud::"
INSTANCE = pulumi_recovery.INSTANCE


def write_lock(backend: Path, **content: object) -> Path:
    directory = backend / ".pulumi" / "locks" / "organization" / "strata-cloud" / "lab"
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{len(list(directory.iterdir()))}.json"
    file.write_text(json.dumps({"hostname": socket.gethostname(), **content}))
    return file


@pytest.fixture
def running_pulumi(tmp_path: Path) -> Iterator[int]:
    """A process that is called pulumi."""
    program = tmp_path / "pulumi"
    program.symlink_to(sys.executable)
    process = subprocess.Popen([str(program), "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.wait()


def test_only_locks_without_a_process_go(tmp_path: Path, running_pulumi: int) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead = write_lock(tmp_path, pid=ended.pid)
    other_program = write_lock(tmp_path, pid=os.getpid())
    alive = write_lock(tmp_path, pid=running_pulumi)
    elsewhere = write_lock(tmp_path, pid=ended.pid, hostname="another-machine")
    assert pulumi_recovery.release_stale_locks(tmp_path, "strata-cloud", "lab") == 2
    assert not dead.exists()
    assert not other_program.exists()
    assert alive.exists()
    assert elsewhere.exists()


def test_incomplete_lock_is_removed(tmp_path: Path) -> None:
    file = write_lock(tmp_path, pid=1)
    file.write_text("{")
    assert pulumi_recovery.release_stale_locks(tmp_path, "strata-cloud", "lab") == 1


class Cloud:
    """An openstacksdk connection with two servers of the same name, one of them known to the state."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.identity = SimpleNamespace(find_project=lambda _: SimpleNamespace(id="project"))
        self.compute = SimpleNamespace(
            servers=self._servers,
            delete_server=lambda server: self.deleted.append(server.id),
            wait_for_delete=lambda *_, **__: None,
        )

    def _servers(self, **_: object) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(name="worker-1", id="known", project_id="project", fault=None),
            SimpleNamespace(name="worker-1", id="orphan", project_id="project", fault={"message": "No valid host"}),
            SimpleNamespace(name="worker-1", id="foreign", project_id="other", fault=None),
        ]

    def __enter__(self) -> Cloud:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    cloud = Cloud()
    connect: Callable[[SiteContext], Any] = lambda _: cloud  # noqa: E731  a fixture's substitute
    monkeypatch.setattr(pulumi_recovery, "connect", connect)
    return cloud


def test_instance_failure_carries_novas_fault(context: SiteContext, cloud: Cloud) -> None:
    assert cloud.deleted == []
    failure = Failure(URN + f"{INSTANCE}::worker-1", "Error waiting for instance")
    other = Failure(URN + "openstack:networking/port:Port::p", "quota")
    assert pulumi_recovery.explain_failures([failure, other], context) == [
        "instance worker-1: nova: No valid host",
        "port p: quota",
    ]


def test_an_unreachable_cloud_is_one_line_per_address(context: SiteContext) -> None:
    text = (
        "sdk-v2/provider2.go:571: sdk.helper_schema: Error getting port: OpenStack connection error, retries "
        "exhausted. Last error was: dial tcp 10.87.0.10:9696: connect: connection refused: provider=openstack@5.4.1"
    )
    again = (
        f"refreshing {URN}openstack:networking/port:Port::p0: 1 error occurred:\n\t* Error getting port: "
        "dial tcp 10.87.0.10:9696: connect: connection refused"
    )
    failures = [Failure(f"{URN}openstack:networking/port:Port::p{n}", m) for n in range(40) for m in (text, again)]
    assert pulumi_recovery.explain_failures(failures, context) == [
        "port p0, port p1, port p2 and 37 more: cannot connect to 10.87.0.10:9696: connection refused"
    ]


def test_the_same_words_twice_are_one_reason(context: SiteContext) -> None:
    urn = f"{URN}openstack:compute/flavor:Flavor::f"
    first = Failure(urn, "sdk-v2/provider2.go:571: sdk.helper_schema: name taken: provider=openstack@5.4.1")
    second = Failure(urn, f"creating {urn}: 1 error occurred:\n\t* name taken")
    assert pulumi_recovery.explain_failures([first, second], context) == ["flavor f: name taken"]


def test_many_causes_are_cut_short(context: SiteContext) -> None:
    failures = [Failure(f"{URN}openstack:compute/flavor:Flavor::f{n}", f"reason {n}") for n in range(10)]
    lines = pulumi_recovery.explain_failures(failures, context)
    assert len(lines) == 7
    assert lines[-1] == "and 4 more causes"


def test_what_a_killed_pulumi_wrote_half_is_taken_away(tmp_path: Path) -> None:
    state = tmp_path / "lab.json"
    state.write_text('{"version": 3}')
    (tmp_path / "lab.json.bak").write_text('{"version": 2}')
    (tmp_path / "lab.json.bak.attrs").write_text('{"user.content_type": ""}')
    (tmp_path / "lab.json.attrs").touch()
    (tmp_path / "lab.json.18ea0c014dc17a6d.tmp").write_text('{"ver')
    (tmp_path / "other.json.attrs").touch()
    repaired = pulumi_recovery.repair_cut_writes(state)
    assert sorted(repaired) == ["lab.json.18ea0c014dc17a6d.tmp", "lab.json.attrs"]
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "lab.json", "lab.json.bak", "lab.json.bak.attrs", "other.json.attrs"
    ]  # fmt: skip
    assert pulumi_recovery.repair_cut_writes(state) == []
    state.write_text("")
    assert pulumi_recovery.repair_cut_writes(state) == ["lab.json"]
    assert state.read_text() == '{"version": 2}'


def test_settings_of_another_state_go(tmp_path: Path) -> None:
    settings, state_file = tmp_path / "Pulumi.lab.yaml", tmp_path / "lab.json"
    assert not pulumi_recovery.drop_foreign_salt(settings, state_file)
    settings.write_text("encryptionsalt: v1:old\n")
    latest: dict[str, Any] = {"secrets_providers": {"type": "passphrase", "state": {"salt": "v1:old"}}}
    state_file.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    assert not pulumi_recovery.drop_foreign_salt(settings, state_file)
    latest["secrets_providers"]["state"] = {"salt": "v1:new"}
    state_file.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    assert pulumi_recovery.drop_foreign_salt(settings, state_file)
    settings.write_text("encryptionsalt: v1:old\n")
    state_file.unlink()
    assert pulumi_recovery.drop_foreign_salt(settings, state_file)
    assert not settings.exists()


def test_only_plugins_without_an_engine_are_ended(tmp_path: Path) -> None:
    plugin = tmp_path / "pulumi-resource-test"
    plugin.symlink_to(sys.executable)
    sleep = [str(plugin), "-c", "input()"]

    def start(backend: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(sleep, stdin=subprocess.PIPE, env={"PULUMI_BACKEND_URL": backend})

    ours, theirs = start("file:///ours"), start("file:///theirs")
    try:
        assert pulumi_recovery.end_orphaned_plugins("file:///ours") == 1
        assert ours.wait(5) == -9
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()


def test_a_plugin_of_a_running_engine_stays(tmp_path: Path) -> None:
    for name in ("pulumi", "pulumi-resource-test"):
        (tmp_path / name).symlink_to(sys.executable)
    plugin = repr(str(tmp_path / "pulumi-resource-test"))
    code = (
        f"import subprocess; p = subprocess.Popen([{plugin}, '-c', 'input()'], stdin=subprocess.PIPE); "
        "print(p.pid, flush=True); input(); p.kill()"
    )
    engine = subprocess.Popen(
        [str(tmp_path / "pulumi"), "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PULUMI_BACKEND_URL": "file:///ours"},
    )
    assert engine.stdout is not None
    assert engine.stdin is not None
    try:
        assert int(engine.stdout.readline()) > 0
        assert pulumi_recovery.end_orphaned_plugins("file:///ours") == 0
    finally:
        engine.communicate(b"\n", timeout=60)


NOVA = (
    "Error creating OpenStack server: Expected HTTP response code [200 202] when accessing "
    "[POST https://cloud.example.org:8774/v2.1/servers], but got 403 instead: "
    '{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 4, but already used 20 of 20 cores"}}'
)
NEUTRON = (
    "Error creating openstack_networking_port_v2: Expected HTTP response code [201] when accessing "
    "[POST https://cloud.example.org:9696/v2.0/ports], but got 409 instead: "
    '{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: [\'port\'].", "detail": ""}}'
)
EXPIRED = (
    "Error waiting for instance (1) to become ready: Unable to re-authenticate: Expected HTTP response code [200 203] "
    "when accessing [GET https://cloud.example.org:8774/v2.1/servers/1], but got 401 instead: "
    '{"error": {"code": 401, "message": "The request you have made requires authentication."}}: Expected HTTP response '
    "code [201 202] when accessing [POST https://cloud.example.org:5000/v3/auth/tokens], but got 401 instead: "
    '{"error": {"code": 401, "message": "The request you have made requires authentication."}}'
)
PROXY = (
    "Error creating OpenStack server: Expected HTTP response code [200 202] when accessing [POST https://c/servers], "
    "but got 503 instead: <html><body>No server is available</body></html>"
)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            NOVA,
            "Error creating OpenStack server: Quota exceeded for cores: Requested 4, but already used 20 of 20 cores "
            "(HTTP 403)",
        ),
        (
            NEUTRON,
            "Error creating openstack_networking_port_v2: Quota exceeded for resources: ['port']. (HTTP 409)",
        ),
        (
            EXPIRED,
            "keystone refuses the credentials: The request you have made requires authentication. (HTTP 401)",
        ),
        (
            PROXY,
            "Error creating OpenStack server: <html><body>No server is available</body></html> (HTTP 503)",
        ),
    ],
)
def test_a_refusal_is_in_the_services_own_words(message: str, shown: str) -> None:
    assert pulumi_recovery.readable(message) == shown


def test_a_refusal_has_its_own_fix() -> None:
    campus, lab = (load_site(find_site(name)) for name in ("campus", "lab"))
    quota = refusals.remedy(refusals.answer(NOVA), campus, "campus", "strata up campus")
    assert quota is not None
    assert quota.startswith("have the cloud's administrator raise the quota of the project campus")
    assert quota.endswith("then run `strata up campus` again: it resumes")
    assert str(refusals.remedy(NEUTRON, lab, "lab", "strata up lab")).startswith("raise cloud.project.quota")
    expired = refusals.remedy(refusals.answer(EXPIRED), campus, "campus", "strata up campus")
    assert "entry campus of clouds.yaml" in str(expired)
    assert refusals.remedy(PROXY, campus, "campus", "strata up campus") is None
