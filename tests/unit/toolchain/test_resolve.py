"""ensure(): which source is asked, what is refused, and that a killed run leaves nothing half-made."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata.retry import wait_until
from strata.toolchain import cache, go, mirror, release, resolve
from strata.toolchain.cache import Source
from strata.toolchain.process import Processes
from strata.toolchain.resolve import ToolUnavailable, ensure
from strata.toolchain.versions import Component, Versions, architecture
from strata_bench.waiting import eventually


class Recorder:
    """Progress that keeps what it was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def update(self, text: str) -> None:
        self.lines.append(text)


def put(mirror: Path, component: str, version: str, **binaries: str) -> Path:
    """Puts binaries into a mirror, without their sums; returns their directory."""
    directory = mirror / component / version / f"linux-{architecture()}"
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in binaries.items():
        (directory / name).write_text(text)
    return directory


def sums(directory: Path) -> None:
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in sorted(directory.iterdir())]
    (directory / "SHA256SUMS").write_text("".join(lines))


def test_build_when_nothing_else_has_it_and_once_only(pinned: Versions, builds: list[list[str]]) -> None:
    progress = Recorder()
    tools = ensure(["suite"], progress)
    assert [(t.name, t.version, t.source, t.path.read_text()) for t in tools.values()] == [
        ("alpha", "1.2.3", Source.BUILD, "built alpha"),
        ("beta", "1.2.3", Source.BUILD, "built beta"),
    ]
    assert tools["alpha"].sha256 == hashlib.sha256(b"built alpha").hexdigest()
    assert os.access(tools["alpha"].path, os.X_OK)
    assert any("suite" in line for line in progress.lines)
    assert ensure(["alpha"], Silent())["alpha"] == tools["alpha"]
    assert builds == [["alpha", "beta"]]


def fill_caches() -> Path:
    """Makes caches as builds leave them; Go's own files are read-only."""
    module = go.build_caches() / "modules" / "example.invalid"
    module.mkdir(parents=True, exist_ok=True)
    (module / "go.mod").touch(0o444)
    return go.build_caches()


def test_caches_of_builds_are_deleted_once_every_tool_is_built(pinned: Versions, builds: list[list[str]]) -> None:
    """Of a component that has a substitute and no build, nothing is waited for."""
    caches = fill_caches()
    ensure(["alpha"], Silent())
    assert caches.exists(), "beta is still to be built"
    ensure(["beta"], Silent())
    assert not caches.exists()
    assert list(go.build_caches().parent.glob("caches")) == []


def test_deletion_of_caches_that_was_killed_is_repeated(pinned: Versions, builds: list[list[str]]) -> None:
    fill_caches().rename(go.build_caches().with_name(".emptied-killed"))
    go.empty_caches().join()
    assert go.caches_on_disk() == []


def test_caches_stay_while_another_process_builds(pinned: Versions, builds: list[list[str]]) -> None:
    caches = fill_caches()
    with go.build_caches().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        ensure(["suite"], Silent())
        assert caches.exists()
        # the deletion that ensure began may be forking, and its child would hold the lock a moment longer
        fcntl.flock(lock, fcntl.LOCK_UN)
    ensure(["suite"], Silent())
    assert not caches.exists()


def test_a_lock_ends_although_a_child_has_inherited_it(pinned: Versions, builds: list[list[str]]) -> None:
    """As a child does between fork and exec, which subprocess starts in other threads."""
    caches = fill_caches()
    with go._locked(fcntl.LOCK_SH):
        held = [os.dup(int(link.name)) for link in Path("/proc/self/fd").iterdir() if _is_lock(link)]
    try:
        assert held
        go.empty_caches().join()
        assert not caches.exists()
    finally:
        for descriptor in held:
            os.close(descriptor)


def _is_lock(descriptor: Path) -> bool:
    return descriptor.exists() and descriptor.readlink() == go.build_caches().with_suffix(".lock")


def test_only_the_missing_binaries_of_a_component_are_built(pinned: Versions, builds: list[list[str]]) -> None:
    ensure(["beta"], Silent())
    ensure(["suite"], Silent())
    assert builds == [["beta"], ["alpha"]]


def test_a_change_of_the_sources_makes_another_tool(
    pinned: Versions, builds: list[list[str]], repository: Path
) -> None:
    before = ensure(["alpha"], Silent())["alpha"]
    (repository / "tools/suite/main_test.go").write_text("package main // tests change no binary\n")
    assert ensure(["alpha"], Silent())["alpha"] == before
    (repository / "tools/suite/main.go").write_text("package main // other\n")
    after = ensure(["alpha"], Silent())["alpha"]
    assert after.path != before.path
    assert before.path.exists()


def test_sources_edited_during_a_build_make_another_tool(
    pinned: Versions, builds: list[list[str]], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was built of the old sources is not a tool of the new ones."""
    build, main = go.build, repository / "tools/suite/main.go"

    def edited(*arguments: Any) -> Any:
        built = build(*arguments)
        main.write_text("package main // other\n")
        return built

    before = main.read_text()
    monkeypatch.setattr(go, "build", edited)
    old = ensure(["alpha"], Silent())["alpha"]
    assert cache.find("alpha", pinned.components["suite"]) is None
    main.write_text(before)
    assert cache.find("alpha", pinned.components["suite"]) == old


def test_mirror_comes_first(
    pinned: Versions, builds: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums(put(tmp_path / "mirror", "suite", "1.2.3", alpha="mirrored alpha", beta="mirrored beta"))
    monkeypatch.setenv("STRATA_MIRROR", str(tmp_path / "mirror"))
    tool = ensure(["alpha"], Silent())["alpha"]
    assert (tool.source, tool.path.read_text()) == (Source.MIRROR, "mirrored alpha")
    assert builds == []


def test_mirror_of_another_version_is_passed_over(pinned: Versions, builds: list[list[str]], tmp_path: Path) -> None:
    sums(put(tmp_path / "mirror", "suite", "1.2.2", alpha="old"))
    tool = ensure(["alpha"], Silent(), mirror=tmp_path / "mirror")["alpha"]
    assert tool.source is Source.BUILD


def test_mirror_with_a_digest_mismatch_is_refused(pinned: Versions, builds: list[list[str]], tmp_path: Path) -> None:
    directory = put(tmp_path / "mirror", "suite", "1.2.3", alpha="good")
    sums(directory)
    (directory / "alpha").write_text("tampered")
    wrong, right = (hashlib.sha256(text).hexdigest() for text in (b"tampered", b"good"))
    with pytest.raises(UserError, match=f"is refused: it has sha256 {wrong}, expected {right}"):
        ensure(["alpha"], Silent(), mirror=tmp_path / "mirror")
    assert builds == []
    assert cache.find("alpha", pinned.components["suite"]) is None


def test_mirror_without_sums_is_refused_with_the_command_that_writes_them(
    pinned: Versions, builds: list[list[str]], tmp_path: Path
) -> None:
    put(tmp_path / "mirror", "suite", "1.2.3", alpha="unknown")
    with pytest.raises(UserError, match="its digest is not pinned") as error:
        ensure(["alpha"], Silent(), mirror=tmp_path / "mirror")
    assert "sha256sum alpha" in (error.value.fix or "")


def test_a_mirror_that_is_not_there_is_an_error(pinned: Versions, builds: list[list[str]], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a directory"):
        ensure(["alpha"], Silent(), mirror=tmp_path / "nowhere")


def test_a_written_mirror_serves_another_machine(
    pinned: Versions, builds: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.write(tmp_path / "mirror", ensure(["suite"], Silent()).values(), pinned)
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "another"))
    tools = ensure(["suite"], Silent(), mirror=tmp_path / "mirror")
    assert {(t.source, t.path.read_text()) for t in tools.values()} == {
        (Source.MIRROR, "built alpha"),
        (Source.MIRROR, "built beta"),
    }
    assert builds == [["alpha", "beta"]]


def test_what_is_not_available_names_every_source(pinned: Versions, builds: list[list[str]]) -> None:
    with pytest.raises(ToolUnavailable) as error:
        ensure(["plugin"], Silent())
    for source in ("mirror: no mirror is set", "release: versions.yaml pins no digest", "build: its source"):
        assert source in error.value.message
    place = f"<mirror>/plugin/4.5.6/linux-{architecture()}/"
    assert error.value.fix == f"put it and its SHA256SUMS into {place}, and set STRATA_MIRROR=<mirror>"


def test_what_the_internet_has_is_named_with_its_place_in_the_mirror(
    pinned: Versions, builds: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://releases.invalid/{binary}-{version}.tar.gz"
    released = {"url": url, "digest": {architecture(): "sha256:" + "0" * 64}, "member": "{binary}"}
    plugin = Component.model_validate(pinned.components["plugin"].model_dump() | {"release": released})
    versions = pinned.model_copy(update={"components": {"plugin": plugin}})
    monkeypatch.setattr(resolve, "load_versions", lambda: versions)
    with pytest.raises(ToolUnavailable) as error:
        ensure(["plugin"], Silent(), mirror=tmp_path)
    assert error.value.fix == (
        "on a host that reaches it, download https://releases.invalid/pulumi-resource-plugin-4.5.6.tar.gz; "
        f"put it into {tmp_path}/plugin/4.5.6/"
    )


def test_all_tools_leave_out_what_has_a_substitute(pinned: Versions, builds: list[list[str]]) -> None:
    assert list(ensure(None, Silent())) == ["alpha", "beta"]


def test_an_unreachable_host_is_asked_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answer = threading.Event()

    def urlopen(request: Any, timeout: float) -> None:
        asked.append(request.full_url)
        answer.wait(60)
        raise TimeoutError

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    reachability = release.Reachability(seconds=0.05)
    reasons = [reachability.why_not(f"https://releases.invalid/{n}") for n in range(5)]
    assert reasons == ["releases.invalid did not respond within 0.05 s"] * 5
    assert wait_until(lambda: None if asked else "the question", 60) is None
    assert asked == ["https://releases.invalid/"]
    answer.set()


def test_the_first_error_ends_the_other_work(pinned: Versions, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[bool] = []

    def build(*_: Any) -> Any:
        raise UserError("go build failed", fix="fix it")

    monkeypatch.setattr(go, "build", build)
    monkeypatch.setattr(Processes, "cancel", lambda _self: cancelled.append(True))
    with pytest.raises(UserError, match="go build failed"):
        ensure(["suite"], Silent())
    assert cancelled == [True]


def test_what_a_killed_run_left_is_not_a_tool(pinned: Versions, builds: list[list[str]]) -> None:
    suite = pinned.components["suite"]
    directory = cache.tool_directory("alpha", suite)
    leftover = directory.parent / ".partial-killed"
    leftover.mkdir(parents=True)
    (leftover / "alpha").write_text("half")
    directory.mkdir()  # the binary without its record
    (directory / "alpha").write_text("half")
    assert cache.find("alpha", suite) is None
    assert ensure(["alpha"], Silent())["alpha"].path.read_text() == "built alpha"
    assert not leftover.exists()


def test_a_truncated_binary_is_not_a_tool(pinned: Versions, builds: list[list[str]]) -> None:
    tool = ensure(["alpha"], Silent())["alpha"]
    tool.path.write_text("cut")
    assert ensure(["alpha"], Silent())["alpha"].path.read_text() == "built alpha"


def _slow_build(*arguments: Any) -> Any:
    (arguments[4] / arguments[3][0]).write_text("half")
    time.sleep(60)


def _ensure_with(build: Any) -> None:
    go.build = build
    ensure(["alpha"], Silent())


def test_an_interrupted_run_leaves_nothing_incomplete(
    pinned: Versions, builds: list[list[str]], tmp_path: Path
) -> None:
    process = multiprocessing.get_context("fork").Process(target=_ensure_with, args=(_slow_build,))
    process.start()
    half = tmp_path / "cache/work/suite/alpha"
    eventually(half.exists, 120, "the build has begun", pause=0.02)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert cache.find("alpha", pinned.components["suite"]) is None
    assert ensure(["alpha"], Silent())["alpha"].path.read_text() == "built alpha"  # the lock died with the process
    assert not half.exists()


def test_two_runs_do_not_build_the_same_twice(
    pinned: Versions, builds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, begun, waits = go.build, threading.Event(), threading.Event()

    def build(*arguments: Any) -> Any:
        begun.set()
        waits.wait(60)
        return quick(*arguments)

    class Waiting(Recorder):
        def update(self, text: str) -> None:
            super().update(text)
            if "waiting for process" in text:
                waits.set()

    monkeypatch.setattr(go, "build", build)
    monkeypatch.setattr(resolve, "_TICK_SECONDS", 0.05)
    watched = Waiting()
    first = threading.Thread(target=ensure, args=(["alpha"], Silent()))
    first.start()
    assert begun.wait(60)
    tool = ensure(["alpha"], watched)["alpha"]
    first.join()
    assert tool.path.read_text() == "built alpha"
    assert builds == [["alpha"]]
    assert any(f"waiting for process {os.getpid()}" in line for line in watched.lines)


@pytest.mark.parametrize(("digest", "said"), [("built", "same digest"), ("other", "digest mismatch")])
def test_a_build_shows_whether_it_gave_the_pinned_bits(
    definition: dict[str, Any], request: pytest.FixtureRequest, digest: str, said: str
) -> None:
    text = "built alpha" if digest == "built" else "something"
    definition["components"]["suite"]["binaries"]["alpha"]["reproducible"] = {
        f"go1.26.6/{architecture()}": hashlib.sha256(text.encode()).hexdigest()
    }
    request.getfixturevalue("pinned")
    request.getfixturevalue("builds")
    assert said in ensure(["alpha"], Silent())["alpha"].note
