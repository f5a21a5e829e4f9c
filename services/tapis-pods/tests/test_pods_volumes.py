"""Volumes: who may do what with them, and no path, link or file in them that leads elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import socket
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .test_pods_api import assert_refused
from .users import SECONDS, Owner

OwnerOf = Callable[..., Owner]
ROOT = os.geteuid() == 0


@pytest.fixture
def alice(owner: OwnerOf) -> Owner:
    """A member of research."""
    return owner("alice", "research")


def test_a_volume_has_the_fields_of_tapis(alice: Owner) -> None:
    made = alice("POST", "/volumes", {"volume_id": "data1", "description": "first"}).json()["result"]
    times = {made.pop("creation_ts"), made.pop("update_ts")}
    assert len(times) == 1
    assert made == {
        "volume_id": "data1", "description": "first", "size_limit": 1024, "status": "AVAILABLE",
        "compute_queue": "research",
    }  # fmt: skip
    assert [volume["volume_id"] for volume in alice("GET", "/volumes").json()["result"]] == ["data1"]
    assert_refused(alice("POST", "/volumes", {"volume_id": "data1"}), 409, "in use")
    assert alice("PUT", "/volumes/data1", {"description": "first"}).json()["message"] == "Volume unchanged."
    changed = alice("PUT", "/volumes/data1", {"size_limit": 2048}).json()["result"]
    assert (changed["description"], changed["size_limit"]) == ("first", 2048)


@pytest.mark.parametrize("name", ["ab", "Data", "a/b", "../x", "a" * 59, "data\n", ".removed"])
def test_names_that_cannot_be(alice: Owner, name: str) -> None:
    assert_refused(alice("POST", "/volumes", {"volume_id": name}), 400, "body.volume_id")
    assert_refused(alice("POST", "/volumes", {"volume_id": "data1", "description": "für"}), 400, "ASCII")


def test_files_come_and_go(alice: Owner, export: Path) -> None:
    directory = alice.volume("data1")
    assert alice("GET", "/volumes/data1/list").json()["result"] == []
    content = os.urandom(3 << 20)
    answer = alice.upload("data1", "a/b/c.bin", content)
    assert answer.json()["result"] == "a/b/c.bin", answer.text
    assert (directory / "a/b/c.bin").read_bytes() == content
    # pods of any user write by the group
    assert oct((directory / "a/b").stat().st_mode & 0o7777) == "0o2770"
    assert oct((directory / "a/b/c.bin").stat().st_mode & 0o777) == "0o660"
    alice.upload("data1", "a/b/c.bin", b"second")
    answer = alice("GET", "/volumes/data1/contents/a/b/c.bin")
    assert (answer.content, answer.headers["Content-Type"]) == (b"second", "application/octet-stream")
    assert answer.headers["Content-Disposition"] == "attachment"
    (directory / "a/empty").mkdir()
    listing = alice("GET", "/volumes/data1/list").json()
    assert [(entry["path"], entry["type"]) for entry in listing["result"]] == [
        ("a", "dir"), ("a/b", "dir"), ("a/b/c.bin", "file"), ("a/empty", "dir"),
    ]  # fmt: skip
    assert listing["metadata"]["complete"] is True
    assert_refused(alice("GET", "/volumes/data1/contents/a"), 400, "?zip=true")
    answer = alice("GET", "/volumes/data1/contents/a?zip=true")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["b/", "b/c.bin", "empty/"]
        assert archive.read("b/c.bin") == b"second"
    assert_refused(alice("GET", "/volumes/data1/contents/none"), 404, "no such file")
    assert_refused(alice.upload("data1", "a/b", b""), 400, "folder by this name")
    assert_refused(alice.upload("data1", "a/b/c.bin/d", b""), 400, "c.bin is a file or a link")
    assert not list((export / "research" / ".partial").iterdir())

    assert alice("DELETE", "/volumes/data1").status_code == 200
    assert_refused(alice("GET", "/volumes/data1"), 404)
    eventually(lambda: not directory.exists(), SECONDS, "the worker removes the files")
    # the NFS server deletes them
    moved = next(folder for folder in (export / ".removed").iterdir() if (folder / "a/b/c.bin").is_file())
    assert (moved / "a/b/c.bin").read_bytes() == b"second"
    created = "the name is free again"
    eventually(lambda: alice("POST", "/volumes", {"volume_id": "data1"}).status_code == 200, SECONDS, created)
    assert alice("GET", "/volumes/data1/list").json()["result"] == []


def test_files_that_the_database_does_not_know_are_nobodys(alice: Owner) -> None:
    directory = alice.export / "research/volumes/old1"
    directory.mkdir(parents=True)
    (directory / "secret").write_text("of another")
    assert_refused(alice("POST", "/volumes", {"volume_id": "old1"}), 409, "unknown volume")
    assert_refused(alice("GET", "/volumes/old1"), 404)


@pytest.mark.parametrize(
    "path",
    ["..", "../other", "a/../../b", "%2e%2e/other", "..%2fother", "a/%2e%2e/%2e%2e/b", "a%00b", ".", "x" * 256,
     "a/" * 65 + "b", "y" * 1025],
)  # fmt: skip
def test_paths_do_not_leave_the_volume(alice: Owner, path: str) -> None:
    directory = alice.volume("data1")
    (directory.parent / "other").mkdir()
    (directory.parent / "other/file").write_text("secret")
    token = {"X-Tapis-Token": alice.token}

    def send(method: str, action: str, **options: Any) -> requests.Response:
        # as it is: requests would resolve the dots
        url = f"{alice.url}/volumes/data1/{action}/"
        prepared = requests.Request(method, url, headers=token, **options).prepare()
        prepared.url = f"{url}{path}"
        with requests.Session() as session:
            return session.send(prepared, timeout=60)

    for answer in (send("GET", "contents"), send("GET", "contents"), send("POST", "upload", files={"file": b"x"})):
        assert_refused(answer, 400)
    assert sorted(path.name for path in directory.parent.iterdir()) == ["data1", "other"]
    assert (directory.parent / "other/file").read_text() == "secret"


def test_links_and_what_is_not_a_file_are_not_followed(alice: Owner) -> None:
    directory = alice.volume("data1")
    other = directory.parent / "other"
    other.mkdir()
    (other / "file").write_text("secret")
    (directory / "link").symlink_to("/etc/passwd")
    (directory / "folder").symlink_to(other)
    os.mkfifo(directory / "fifo")
    for path, text in (("link", "is a link"), ("folder/file", "folder is a file or a link"), ("fifo", "regular file")):
        assert_refused(alice("GET", f"/volumes/data1/contents/{path}"), 400, text)
    assert_refused(alice("GET", "/volumes/data1/contents/folder?zip=true"), 400, "link")
    assert_refused(alice.upload("data1", "folder/new", b"x"), 400, "links are not followed")
    # an upload takes the link's place, and not that of what it leads to
    assert alice.upload("data1", "link", b"mine").status_code == 200
    assert (directory / "link").read_bytes() == b"mine"
    types = {entry["path"]: entry["type"] for entry in alice("GET", "/volumes/data1/list").json()["result"]}
    assert types == {"fifo": "other", "folder": "symbolic_link", "link": "file"}
    assert [path.name for path in other.iterdir()] == ["file"]


def test_the_tenants_own_folders_are_not_trusted(alice: Owner) -> None:
    """Its members can mount its claim, by Kubernetes, and put links where the service has folders."""
    directory = alice.volume("data1")
    teaching = alice.export / "teaching/volumes/data1"
    teaching.mkdir(parents=True)
    (teaching / "file").write_text("secret")
    directory.rmdir()
    directory.symlink_to(teaching)
    assert_refused(alice("GET", "/volumes/data1/contents/file"), 400, "link")
    shutil.rmtree(directory.parent)
    directory.parent.symlink_to(teaching.parent)
    assert_refused(alice("GET", "/volumes/data1/contents/file"), 400, "link")
    assert_refused(alice.upload("data1", "file", b"x"), 400, "link")
    directory.parent.unlink()


def test_odd_names_and_times(alice: Owner) -> None:
    directory = alice.volume("data1")
    odd = os.fsencode(directory) + b"/sub/\xff\n"
    (directory / "sub").mkdir()
    Path(os.fsdecode(odd)).write_text("x")
    os.utime(odd, (0, 2**34))
    (entry,) = (entry for entry in alice("GET", "/volumes/data1/list").json()["result"] if entry["type"] == "file")
    assert entry["name"] == "\N{REPLACEMENT CHARACTER}\n"
    answer = alice("GET", "/volumes/data1/contents/sub?zip=true")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
    assert alice.upload("data1", "für/ü b.txt", b"x").status_code == 200
    assert alice("GET", "/volumes/data1/contents/f%C3%BCr/%C3%BC%20b.txt").content == b"x"


@pytest.mark.skipif(not ROOT, reason="needs another user's files")
def test_what_a_pods_user_keeps_for_itself(alice: Owner) -> None:
    directory = alice.volume("data1")
    for name, mode in (("secret", 0o600), ("shut", 0o700)):
        path = directory / name
        path.mkdir() if name == "shut" else path.write_text("x")
        os.chown(path, 1000, 1000)
        path.chmod(mode)
    for protected in ("secret", "shut/file", "shut?zip=true"):
        assert_refused(alice("GET", f"/volumes/data1/contents/{protected}"), 403, "chmod g+rwX")
    assert_refused(alice.upload("data1", "shut/new", b"x"), 403, "chmod g+rwX")
    listed = alice("GET", "/volumes/data1/list").json()
    assert (len(listed["result"]), listed["metadata"]["complete"]) == (2, False)
    snapshot = alice.snapshot("copy1", "data1")
    assert snapshot["status"] == "ERROR"
    assert "Permission denied" in snapshot["status_message"]
    assert snapshot["status_message"].startswith(("secret", "shut"))
    assert_refused(alice("GET", "/snapshots/copy1/list"), 404, "ERROR")
    # of whom the files are does not keep them
    assert alice("DELETE", "/volumes/data1").status_code == 200
    eventually(lambda: not directory.exists(), SECONDS, "the worker removes the files")


def test_answers_that_no_one_waits_for_keep_no_file_open(alice: Owner, files: Service) -> None:
    directory = alice.volume("data1")
    (directory / "sub").mkdir()
    (directory / "sub/file").write_bytes(bytes(1 << 20))
    address = urlsplit(files.url)
    request = f"HTTP/1.1\r\nHost: a\r\nX-Tapis-Token: {alice.token}\r\n\r\n"

    def held() -> list[str]:
        paths = []
        for descriptor in Path(f"/proc/{files.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                paths.append(str(descriptor.readlink()))
        return [path for path in paths if path.startswith(str(alice.export))]

    for number in range(60):
        path = "sub/file" if number % 2 else "sub?zip=true"
        with socket.create_connection((str(address.hostname), address.port or 0), timeout=60) as connection:
            connection.sendall(f"GET /v3/pods/volumes/data1/contents/{path} {request}".encode())
            # gone before, while or after the answer begins
            time.sleep(0.0005 * (number % 20))

    def closed() -> bool:
        # Python collects what is left of requests while it serves others
        for _ in range(20):
            alice("GET", "/volumes/data1/list")
        return len(held()) < 10

    eventually(closed, SECONDS, "the files are closed")


def test_folders_too_deep_and_too_full(alice: Owner) -> None:
    directory = alice.volume("data1")
    deep = directory / "deep"
    for _ in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    listed = alice("GET", "/volumes/data1/list").json()
    assert (listed["metadata"]["complete"], len(listed["result"]) < 70) == (False, True)
    assert_refused(alice("GET", "/volumes/data1/contents/deep?zip=true"), 400, "folders in each other")
    snapshot = alice.snapshot("copy1", "data1")
    assert (snapshot["status"], "folders in each other" in snapshot["status_message"]) == ("ERROR", True)
    (directory / "full").mkdir()
    for number in range(10_001):
        (directory / "full" / f"file{number}").touch()
    listed = alice("GET", "/volumes/data1/list").json()
    assert (listed["metadata"]["complete"], len(listed["result"])) == (False, 1000)
    assert_refused(alice("GET", "/volumes/data1/contents/full?zip=true"), 400, "more than 10000")


def test_uploads_that_are_none_or_too_long(alice: Owner) -> None:
    directory = alice.volume("data1")
    url, token = f"{alice.url}/volumes/data1/upload/file", {"X-Tapis-Token": alice.token}
    assert_refused(alice.upload("data1", "file", b"x" * (8 * 2**20 + 1)), 413, "8 MiB")
    bodies: tuple[tuple[dict[str, str], bytes, str], ...] = (
        ({"Content-Type": "application/json"}, b"{}", "multipart/form-data"),
        ({"Content-Type": "multipart/form-data"}, b"", "multipart/form-data"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--y", "not multipart"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\nhalf", "no end"),
    )
    for headers, body, text in bodies:
        assert_refused(requests.post(url, data=body, headers=token | headers, timeout=60), 400, text)
    assert_refused(requests.post(url, files={"other": b"x"}, headers=token, timeout=60), 400, "file is missing")
    assert not list(directory.iterdir())
    assert not list((alice.export / "research/.partial").iterdir())


def test_levels(alice: Owner, owner: OwnerOf) -> None:
    bob = owner("bob", "research")
    alice.volume("data1")
    alice.upload("data1", "file", b"x")
    assert_refused(bob("GET", "/volumes/data1"), 404)
    alice("POST", "/volumes/data1/permissions", {"user": "bob", "level": "READ"})
    assert bob("GET", "/volumes/data1/contents/file").content == b"x"
    assert bob("GET", "/volumes/data1/list").status_code == 200
    for answer in (
        bob.upload("data1", "file", b"y"),
        bob("PUT", "/volumes/data1", {"description": "bob's"}),
        bob("GET", "/volumes/data1/permissions"),
        bob("DELETE", "/volumes/data1"),
        bob("POST", "/volumes/data1/permissions", {"user": "bob", "level": "ADMIN"}),
    ):
        assert_refused(answer, 403, "you have READ")
    alice("POST", "/volumes/data1/permissions", {"user": "bob", "level": "USER"})
    assert bob.upload("data1", "file", b"y").status_code == 200
    assert bob("GET", "/volumes/data1/permissions").json()["result"] == {"permissions": ["alice:ADMIN", "bob:USER"]}
    assert_refused(bob("DELETE", "/volumes/data1"), 403, "you have USER")
    assert_refused(alice("DELETE", "/volumes/data1/permissions/alice"), 400, "last ADMIN")


def test_a_volume_is_not_there_for_other_tenants(alice: Owner, owner: OwnerOf) -> None:
    alice.volume("data1")
    alice.upload("data1", "file", b"x")
    alice.snapshot("copy1", "data1")
    eve = owner("eve", "teaching")
    for kind, name in (("volumes", "data1"), ("snapshots", "copy1")):
        alice("POST", f"/{kind}/{name}/permissions", {"user": "eve", "level": "ADMIN"})
        assert eve("GET", f"/{kind}").json()["result"] == []
        assert_refused(eve("PUT", f"/{kind}/{name}", {}), 404)
        for path in ("", "/list", "/contents/file", "/permissions"):
            assert_refused(eve("GET", f"/{kind}/{name}{path}"), 404)
        assert_refused(eve("DELETE", f"/{kind}/{name}"), 404)
    assert_refused(eve.upload("data1", "file", b"y"), 404)
    body = {"snapshot_id": "theft1", "source_volume_id": "data1", "source_volume_path": "/"}
    assert_refused(eve("POST", "/snapshots", body), 404)
    both = owner("carol", "research", "teaching")
    assert_refused(both("POST", "/volumes", {"volume_id": "data2"}), 400, "compute_queue")
    made = both("POST", "/volumes", {"volume_id": "data2", "compute_queue": "teaching"})
    assert made.json()["result"]["compute_queue"] == "teaching"
