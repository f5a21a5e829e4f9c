"""Snapshots: complete copies or none, whenever the process ends."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from strata_bench.waiting import eventually

from .conftest import StartFiles
from .test_pods_api import assert_refused
from .users import SECONDS, Owner

OwnerOf = Callable[..., Owner]


@pytest.fixture
def alice(owner: OwnerOf) -> Owner:
    """A member of research with a volume that has some files."""
    alice = owner("alice", "research")
    directory = alice.volume("data1")
    (directory / "a/b").mkdir(parents=True)
    (directory / "a/b/file").write_text("first")
    (directory / "a/run").write_text("#!/bin/sh")
    (directory / "a/run").chmod(0o755)
    (directory / "a/link").symlink_to("b/file")
    return alice


def test_a_snapshot_stays_as_it_was(alice: Owner, export: Path) -> None:
    made = alice.snapshot("copy1", "data1", description="before")
    assert (made["status"], made["size"], made["source_volume_path"]) == ("AVAILABLE", 1, "")
    assert (made["cron"], made["retention_policy"], made["compute_queue"]) == ("", "", "research")
    (export / "research/volumes/data1/a/b/file").write_text("second")
    assert alice("GET", "/snapshots/copy1/contents/a/b/file").content == b"first"
    entries = {entry["path"]: entry for entry in alice("GET", "/snapshots/copy1/list").json()["result"]}
    assert sorted(entries) == ["a", "a/b", "a/b/file", "a/link", "a/run"]
    assert entries["a/link"]["type"] == "symbolic_link"
    assert entries["a/run"]["nativePermissions"] == "-rwxrwx---"
    assert alice("DELETE", "/volumes/data1").status_code == 200
    assert alice("GET", "/snapshots/copy1/contents/a/b/file").content == b"first"
    assert alice("PUT", "/snapshots/copy1", {"description": "x"}).json()["result"]["description"] == "x"
    assert alice("DELETE", "/snapshots/copy1").status_code == 200
    eventually(lambda: not (export / "research/snapshots/copy1").exists(), SECONDS, "its files are removed")


def test_parts_of_a_volume(alice: Owner) -> None:
    alice.snapshot("copy1", "data1", "a/b")
    assert alice("GET", "/snapshots/copy1/contents/file").content == b"first"
    alice.snapshot("copy2", "data1", "a/b/file", destination_path="x/y")
    assert alice("GET", "/snapshots/copy2/contents/x/y").content == b"first"
    alice.snapshot("copy3", "data1", "a", destination_path="old")
    assert alice("GET", "/snapshots/copy3/contents/old/run").content == b"#!/bin/sh"


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"source_volume_path": "../data2"}, 400, "source_volume_path"),
        ({"source_volume_path": "/etc"}, 400, "source_volume_path"),
        ({"source_volume_path": "none"}, 404, "no such file"),
        ({"source_volume_path": "a/link/x"}, 400, "links are not followed"),
        ({"source_volume_path": "a/b/file"}, 400, "destination_path"),
        ({"destination_path": "../x"}, 400, "destination_path"),
        ({"source_volume_id": "none"}, 404, "there is no volume none"),
        ({"cron": "* * * * *"}, 400, "body.cron"),
        ({"retention_policy": "7 days"}, 400, "body.retention_policy"),
    ],
)
def test_snapshots_that_cannot_be(alice: Owner, fields: dict[str, str], status: int, text: str) -> None:
    body = {"snapshot_id": "copy1", "source_volume_id": "data1", "source_volume_path": "/", **fields}
    assert_refused(alice("POST", "/snapshots", body), status, text)
    assert alice("GET", "/snapshots").json()["result"] == []


def test_kills_lose_and_double_nothing(alice: Owner, start_files: StartFiles, export: Path) -> None:
    """The process of the session is one of several; those that die have their turns too."""
    chance = random.Random(7)  # noqa: S311  # the same kills in each run
    content = {f"file{number}": chance.randbytes(1 << 20) for number in range(8)}
    directory = alice.volume("data2")
    for name, data in content.items():
        (directory / name).write_bytes(data)
    names = [f"copy{number}" for number in range(6)]
    for name in names:
        with start_files() as other:
            body = {"snapshot_id": name, "source_volume_id": "data2", "source_volume_path": "/"}
            headers = {"X-Tapis-Token": alice.token}
            assert requests.post(f"{other.url}/v3/pods/snapshots", json=body, headers=headers, timeout=60).ok
            time.sleep(chance.uniform(0, 0.05))
            other.process.send_signal(signal.SIGKILL)
            other.process.wait(30)
    assert alice("DELETE", f"/snapshots/{names[0]}").status_code == 200
    assert alice("DELETE", "/volumes/data2").status_code == 200

    def done() -> bool:
        listed = alice("GET", "/snapshots").json()["result"]
        return [(snapshot["snapshot_id"], snapshot["status"]) for snapshot in listed] == [
            (name, "AVAILABLE") for name in names[1:]
        ]

    eventually(done, SECONDS, "the snapshots are made")
    for name in names[1:]:
        copied = {path.name: path.read_bytes() for path in (export / "research/snapshots" / name).iterdir()}
        assert copied == content
    eventually(lambda: not directory.exists(), SECONDS, "the volume's files are removed")
    eventually(lambda: not list((export / "research/.partial").iterdir()), SECONDS, "no half of a copy is left")
