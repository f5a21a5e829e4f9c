"""Bytes: fetched once, whole or not at all, within the limit of the disk."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from strata_bench.waiting import eventually

from .conftest import MEBIBYTE, Mirror, StartMirror
from .fake_hub import FakeHub, Repo

BIG = os.urandom(3 * MEBIBYTE)
URL = "/google/tiny/resolve/main/model.safetensors"


@pytest.fixture
def big(hub: FakeHub) -> FakeHub:
    """A Hub with one large file."""
    hub.repos["models/google/tiny"] = Repo({"model.safetensors": BIG})
    return hub


def test_readers_at_once_share_one_transfer_as_it_arrives(big: FakeHub, mirror: Mirror) -> None:
    big.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(mirror.get, URL, stream=True) for _ in range(4)]
        ranged = pool.submit(mirror.get, URL, headers={"Range": "bytes=1000-1999"})
        # the first half is served while the second has not been sent
        first = [next(stream.result().iter_content(1000)) for stream in streams]
        assert first == [BIG[:1000]] * 4
        assert ranged.result().content == BIG[1000:2000]
        streams[0].result().close()  # one client ends; the others do not notice
        tail = pool.submit(mirror.get, URL, headers={"Range": "bytes=-5"})
        big.gate.set()
        for stream in streams[1:]:
            assert b"".join(stream.result().iter_content(MEBIBYTE)) == BIG[1000:]
        assert tail.result().content == BIG[-5:]
        assert tail.result().headers["Content-Range"] == f"bytes {len(BIG) - 5}-{len(BIG) - 1}/{len(BIG)}"
    assert len([request for request in big.fetched("model.safetensors") if request.cdn]) == 1
    assert mirror.count("hub_mirror_fetched_bytes_total") == len(BIG)


def test_a_transfer_goes_on_without_its_client(big: FakeHub, mirror: Mirror) -> None:
    big.gate = threading.Event()
    response = mirror.get(URL, stream=True)
    next(response.iter_content(1000))
    response.close()
    big.gate.set()
    eventually(lambda: len(mirror.cached) == 1, 60, "the file is in the cache")
    with big.gone():
        assert mirror.get(URL).content == BIG


@pytest.mark.parametrize("ranges", [True, False], ids=["resumes", "starts again"])
def test_a_broken_transfer_ends_with_the_whole_file(big: FakeHub, mirror: Mirror, ranges: bool) -> None:
    big.cut_after, big.ranges = [MEBIBYTE, MEBIBYTE // 2], ranges
    assert mirror.get(URL).content == BIG
    asked = [request.range for request in big.fetched("model.safetensors") if request.cdn]
    assert len(asked) >= 2
    assert asked[0] is None
    assert all(byte_range is not None and byte_range.startswith("bytes=") for byte_range in asked[1:])


def test_a_transfer_is_continued_by_the_next_process(big: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(big) as first:
        big.gate = threading.Event()
        response = first.get(URL, stream=True)
        next(response.iter_content(MEBIBYTE))
        parts = first.storage / "partial"
        eventually(lambda: sum(part.stat().st_size for part in parts.iterdir()) >= len(BIG) // 2, 60, "half is there")
        response.close()
    big.gate.set()
    big.gate = None
    big.seen.clear()
    with start_mirror(big, first.storage) as second:
        assert second.get(URL).content == BIG
    (continued,) = (request for request in big.fetched("model.safetensors") if request.cdn)
    assert continued.range is not None


def test_wrong_bytes_are_never_whole_and_never_kept(big: FakeHub, mirror: Mirror) -> None:
    big.corrupt = True
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        mirror.get(URL)
    assert mirror.cached == []
    assert list((mirror.storage / "partial").iterdir()) == []
    assert mirror.count("hub_mirror_broken_transfers_total") == 1
    big.corrupt = False
    assert mirror.get(URL).content == BIG


def test_a_small_file_is_checked_by_git_s_id(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = repo = Repo({"config.json": b"{}"})
    assert mirror.get("/google/tiny/resolve/main/config.json", method="HEAD").headers["Content-Length"] == "2"
    commit = repo.head
    repo.commits[commit]["config.json"] = b"[]"  # another content of the same commit
    refused = mirror.get(f"/google/tiny/resolve/{commit}/config.json")
    assert refused.status_code == 504
    assert "ETag" in refused.json()["error"]
    assert mirror.cached == []


def test_the_least_recently_used_leaves_and_what_is_read_stays(hub: FakeHub, start_mirror: StartMirror) -> None:
    contents = {f"f{number}.bin": os.urandom(2 * MEBIBYTE) for number in range(4)}
    hub.repos["models/google/tiny"] = Repo(dict(contents))

    def get(mirror: Mirror, name: str, **options: Any) -> requests.Response:
        return mirror.get(f"/google/tiny/resolve/main/{name}", **options)

    with start_mirror(hub, cache_bytes=5 * MEBIBYTE) as mirror:
        for name in ("f0.bin", "f1.bin", "f0.bin", "f2.bin"):  # f1 is the oldest when f2 comes
            assert get(mirror, name).content == contents[name]
        with hub.gone():
            assert get(mirror, "f0.bin").content == contents["f0.bin"]
            assert get(mirror, "f2.bin").content == contents["f2.bin"]
            assert get(mirror, "f1.bin").status_code == 504
        assert mirror.count("hub_mirror_cache_bytes ") <= 5 * MEBIBYTE
        # both are being read: a third passes without a place on the disk
        reading = [get(mirror, name, stream=True) for name in ("f0.bin", "f2.bin")]
        held = [next(response.iter_content(1000)) for response in reading]
        assert get(mirror, "f3.bin").content == contents["f3.bin"]
        for response, begin, name in zip(reading, held, ("f0.bin", "f2.bin"), strict=True):
            assert begin + b"".join(response.iter_content(MEBIBYTE)) == contents[name]
        assert mirror.count("hub_mirror_evicted_bytes_total") >= 2 * MEBIBYTE


def test_a_file_larger_than_the_cache_passes(big: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(big, cache_bytes=MEBIBYTE) as mirror:
        assert mirror.get(URL).content == BIG
        part = mirror.get(URL, headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, BIG[10:20])
        assert mirror.cached == []
        assert mirror.count('hub_mirror_files_total{result="passed"}') == 2


def test_the_cache_survives_a_restart_and_a_lower_limit(big: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(big) as first:
        assert first.get(URL).content == BIG
    with start_mirror(big, first.storage) as second, big.gone():
        assert second.get(URL).content == BIG
    with start_mirror(big, first.storage, cache_bytes=MEBIBYTE) as third:
        assert third.cached == []


def test_ranges_and_conditions(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = Repo({"text": b"0123456789"})
    path = "/google/tiny/resolve/main/text"
    etag = mirror.get(path).headers["ETag"]
    for header, status, body in (
        ("bytes=2-3", 206, b"23"), ("bytes=8-", 206, b"89"), ("bytes=-3", 206, b"789"), ("bytes=8-100", 206, b"89"),
        ("bytes=0-0,5-6", 200, b"0123456789"), ("lines=1-2", 200, b"0123456789"), ("bytes=10-", 416, b""),
        ("bytes=-0", 416, b""), ("bytes=5-2", 200, b"0123456789"),
    ):  # fmt: skip
        response = mirror.get(path, headers={"Range": header})
        assert (response.status_code, response.content) == (status, body), header
    assert mirror.get(path, headers={"Range": "bytes=2-3", "If-Range": '"other"'}).status_code == 200
    assert mirror.get(path, headers={"If-None-Match": etag}).status_code == 304


def test_a_cached_file_that_was_deleted_by_hand_is_fetched_again(big: FakeHub, mirror: Mirror) -> None:
    assert mirror.get(URL).content == BIG
    (name,) = mirror.cached
    (mirror.storage / "blobs" / name[:2] / name).unlink()
    assert mirror.get(URL).content == BIG


def test_a_link_in_the_cache_s_place_is_not_followed(big: FakeHub, mirror: Mirror, tmp_path: Path) -> None:
    assert mirror.get(URL).content == BIG
    (name,) = mirror.cached
    file = mirror.storage / "blobs" / name[:2] / name
    file.unlink()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    file.symlink_to(secret)
    assert mirror.get(URL).content == BIG
