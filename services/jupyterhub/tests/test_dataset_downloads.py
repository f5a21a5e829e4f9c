"""What servers get of a real HTTPS server: the pod's init container, run as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.site.secrets import pki
from strata_bench.services import free_port

from .datasets import GOOD, SHA256, files, init, register
from .https_source import Sources, https_source
from .running_hub import Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    with https_source(tmp_path_factory.mktemp("sources")) as source:
        yield source


def test_server_gets_what_the_source_has(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/iris.csv", sha256=SHA256, required=True)
    register(hub, "moved", source=f"{sources.url}/moved?version=2")
    register(hub, "folder", source=f"{sources.url}/")
    for _ in range(2):  # the kubelet starts it again
        status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority)
        assert (status, json.loads(report)) == (0, [])
    assert files(datasets) == {"iris/iris.csv": GOOD, "moved/moved": GOOD, "folder/folder": GOOD}


UNREACHABLE = {
    "missing": ({}, "404 Not Found"),
    "empty": ({}, "204 No Content"),
    "huge": ({}, "1000000000000 bytes, and at most 1000000 are allowed"),
    "endless": ({}, "more than 1000000 bytes"),
    "short": ({}, "ended after"),
    "downgrade": ({}, "redirects to http, not to https"),
    "iris.csv": ({"sha256": "0" * 64}, f"sha256 is {SHA256}, not the registered one"),
}


def test_each_unreachable_dataset_is_named(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for path, (more, _) in UNREACHABLE.items():
        register(hub, path.partition(".")[0], source=f"{sources.url}/{path}", **more)
    register(hub, "refused", source=f"https://localhost:{free_port()}/")
    register(hub, "unknown", source="https://no-such-host.invalid/")
    register(hub, "good", source=f"{sources.url}/good")
    status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority, bytes=1_000_000)
    assert status == 0, "none is required"
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    for path, (_, why) in UNREACHABLE.items():
        assert why in reasons.pop(path.partition(".")[0])
    assert "refused" in reasons.pop("refused")
    assert reasons.keys() == {"unknown"}
    assert (datasets / "good" / "good").read_bytes() == GOOD
    (note,) = (datasets / "missing").iterdir()
    assert note.name == "UNREACHABLE.txt"
    assert note.read_text() == f"{sources.url}/missing: 404 Not Found\n"


def test_download_ends_in_time(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for path in ("slow", "silent", "trickle"):
        register(hub, path, source=f"{sources.url}/{path}")
    status, report, datasets = init(hub.pod("bob"), tmp_path, sources.authority, seconds=1)
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    assert (status, reasons["silent"], reasons["trickle"]) == (0, *["no response in time"] * 2)
    assert reasons["slow"] in ("not complete after 1 s", "no response in time")
    assert [file.name for file in (datasets / "slow").iterdir()] == ["UNREACHABLE.txt"]


def test_report_of_all_datasets_fits_into_a_containers(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    for number in range(16):
        name = f"{number:02}-{'long' * 15}"
        register(hub, name, source=f"{sources.url}/iris.csv", sha256="0" * 64, required=number == 0)
    status, report, _ = init(hub.pod("bob"), tmp_path, sources.authority)
    assert (status, len(json.loads(report))) == (1, 16)
    assert len(report) <= 4096


def test_server_with_another_ca_is_unreachable(hub: Hub, sources: Sources, tmp_path: Path) -> None:
    register(hub, "iris", source=f"{sources.url}/iris.csv")
    other, _ = pki.create_authority("other")
    _, report, _ = init(hub.pod("bob"), tmp_path, other)
    assert "CERTIFICATE_VERIFY_FAILED" in report
