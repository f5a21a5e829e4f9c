"""Downloads of releases, uv and mmdebstrap against package registries that stumble."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.access import podman
from strata.errors import UserError
from strata.images import filesystem_build
from strata.images.python_packages import PythonPackages, install_packages
from strata.images.root_filesystem import RootFilesystem
from strata.toolchain import go, release
from strata.toolchain.process import Processes
from strata.toolchain.release import Unavailable, download
from strata.toolchain.versions import Binary, Build, Component, Versions, load_versions
from strata.troubleshooting import link_for

from .faulty import Answer, Fault, Server, running

pytestmark = pytest.mark.nightly

ENTRY = "docs/troubleshooting.md#an-image-cannot-be-built"
CONTENT = os.urandom(3 << 20)
DIGEST = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of the test's own, and no proxy between the test and its server."""
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(release, "_PAUSES", (0.05, 0.1, 0.15))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_OFFLINE", "UV_FROZEN"):
        monkeypatch.delenv(name, raising=False)


def nothing() -> None:
    """Lets a download go on."""


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET, Fault.SHORT])
def test_download_goes_on_after_a_stumble(fault: Fault) -> None:
    """What came is kept, and what is missing asked for again; the file is whole."""
    messages: list[str] = []
    with running(Server(lambda *_: Answer(200, CONTENT), {"GET /tool": [fault, fault]})) as server:
        file = download(f"{server.url}/tool", DIGEST, messages.append, nothing)
    assert file.read_bytes() == CONTENT
    assert len(server.asked) == 3
    assert sum(line.startswith("asking again: ") for line in messages) == 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Fault.ERROR, "HTTP 500 Internal Server Error"), (Fault.SHORT, "broke off after 1572864 of 3145728 bytes")],
)
def test_download_that_never_ends_is_reported(fault: Fault, reason: str) -> None:
    with (
        running(Server(lambda *_: Answer(200, CONTENT), always={"GET /tool": fault})) as server,
        pytest.raises(Unavailable, match=rf"{server.url}/tool: {reason}"),
    ):
        download(f"{server.url}/tool", DIGEST, lambda _: None, nothing)
    assert len(server.asked) == 4


def test_download_that_is_refused_is_not_asked_for_again() -> None:
    with running(Server(lambda *_: Answer(404))) as server, pytest.raises(Unavailable, match="HTTP 404"):
        download(f"{server.url}/tool", DIGEST, lambda _: None, nothing)
    assert len(server.asked) == 1


def wheel() -> bytes:
    """A package with nothing in it but 200 KiB that cannot be packed."""
    files = {
        "stumble/__init__.py": b"",
        "stumble/noise": os.urandom(200 << 10),
        "stumble-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: stumble\nVersion: 1\n",
        "stumble-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in files.items()
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in {**files, "stumble-1.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, text)
    return stream.getvalue()


@pytest.fixture
def index() -> Server:
    """A package index with one package."""
    content = wheel()
    digest = hashlib.sha256(content).hexdigest()
    name = "stumble-1-py3-none-any.whl"
    page = f'<!DOCTYPE html><html><body><a href="/files/{name}#sha256={digest}">{name}</a></body></html>'.encode()

    def answer(_method: str, path: str, _body: bytes) -> Answer:
        if path.startswith("/files/"):
            return Answer(200, content)
        return Answer(200, page, {"Content-Type": "text/html"})

    return Server(answer)


def locked(directory: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> PythonPackages:
    """A service that needs the package, locked while the index was well."""
    project = directory / "service"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "service"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["stumble==1"]\n'
    )
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.url}/simple")
    subprocess.run(["uv", "lock", "--project", str(project), "--quiet"], check=True, capture_output=True)
    shutil.rmtree(directory / "uv")  # locking has kept the wheel's metadata
    server.asked.clear()
    return PythonPackages(project, "3.11")


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET, Fault.SHORT])
def test_python_packages_come_after_a_stumble(
    index: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """uv asks again by itself, and takes nothing that is not whole."""
    with running(index) as server:
        packages = locked(tmp_path, server, monkeypatch)
        server.faults["GET /files/"] = [fault]
        target = tmp_path / "context" / "a" / "site-packages"
        target.mkdir(parents=True)
        install_packages(packages, target)
    assert (target / "stumble" / "noise").stat().st_size == 200 << 10
    assert not server.faults["GET /files/"], "the fault did not happen"


def test_python_packages_that_are_not_available_are_reported(
    index: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With project, package and what the index reported; the next run, with an index that is well, has them."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    with running(index) as server:
        packages = locked(tmp_path, server, monkeypatch)
        server.always["GET /files/"] = Fault.ERROR
        target = tmp_path / "context" / "a" / "site-packages"
        target.mkdir(parents=True)
        with pytest.raises(
            UserError, match=r"(?s)dependencies of .*/service cannot be installed: .*stumble.*500"
        ) as error:
            install_packages(packages, target)
        assert link_for(error.value) == ENTRY
        assert "run the same command again" in (error.value.fix or "")
        server.always.clear()
        install_packages(packages, target)
    assert (target / "stumble" / "noise").exists()


class Lines:
    """Progress that keeps what it was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def update(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET])
def test_root_filesystem_from_a_mirror_that_fails(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt asks again; then mirror and file are named, and nothing is left that looks like an image."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("mmdebstrap as root is what the lab has")
    monkeypatch.setattr(podman, "exists", lambda *_: False)
    progress = Lines()
    with running(Server(lambda *_: Answer(200, bytes(4096)), always={"GET /": fault})) as server:
        line = f"deb [trusted=yes] {server.url}/debian bookworm main\n"
        monkeypatch.setattr(filesystem_build, "sources_for", lambda _: line)
        filesystem = RootFilesystem("stumble", "12", ("hostname",))
        message = rf"root filesystem stumble failed: .*{server.url}/debian.*"
        with pytest.raises(UserError, match=message) as error:
            filesystem_build.ensure(filesystem, progress, ("CMD /bin/sh",))
    assert link_for(error.value) == ENTRY
    asked = [request for request in server.asked if request.endswith("/InRelease")]
    assert len(asked) > 1, "apt gave up at once"
    assert [file.name for file in (tmp_path / "cache/images").iterdir() if file.suffix == ".tar"] == []
    assert any("mmdebstrap stumble" in line for line in progress.lines)


def module_zip() -> bytes:
    """A Go module with one function."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        root = "example.invalid/stumble@v1.0.0"
        archive.writestr(f"{root}/go.mod", "module example.invalid/stumble\n\ngo 1.21\n")
        archive.writestr(f"{root}/stumble.go", 'package stumble\n\n// Name is its name.\nconst Name = "stumble"\n')
    return stream.getvalue()


@pytest.fixture
def proxy() -> Server:
    """A module proxy with one module."""
    answers = {
        "info": b'{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}',
        "mod": b"module example.invalid/stumble\n\ngo 1.21\n",
        "zip": module_zip(),
    }
    place = "/example.invalid/stumble/@v/v1.0.0."

    def answer(_method: str, path: str, _body: bytes) -> Answer:
        return Answer(200, answers[path.removeprefix(place)]) if path.startswith(place) else Answer(404)

    return Server(answer)


@dataclass(frozen=True)
class GoProject:
    """A tool of one package, built from the proxy's module."""

    component: Component
    output: Path
    versions: Versions

    def build(self) -> Path:
        """As ensure() does."""
        plan = self.component.build
        assert plan is not None
        self.output.mkdir(exist_ok=True)
        programs, _ = go.build("stumbler", self.component, plan, ["stumbler"], self.output, self.versions, Processes())
        return programs["stumbler"]


@contextmanager
def go_project(tmp_path: Path, proxy: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoProject]:
    """With the proxy running, which was well when go.sum was made."""
    toolchain = go.present(load_versions())
    if toolchain is None:
        pytest.skip("there is no Go on this machine")
    directory = tmp_path / "tools" / "stumbler"
    directory.mkdir(parents=True)
    (directory / "go.mod").write_text(
        "module example.invalid/stumbler\n\ngo 1.21\n\nrequire example.invalid/stumble v1.0.0\n"
    )
    (directory / "main.go").write_text(
        'package main\n\nimport "example.invalid/stumble"\n\nfunc main() { println(stumble.Name) }\n'
    )
    monkeypatch.setattr(go, "REPOSITORY", tmp_path)
    monkeypatch.setattr(go, "find_go", lambda *_: toolchain)
    monkeypatch.setattr(go, "_PAUSES", (0.05, 0.1))
    component = Component(
        version="1.0.0",
        build=Build(directory=Path("tools/stumbler")),
        binaries={"stumbler": Binary(package="example.invalid/stumbler")},
    )
    with running(proxy) as server:
        for name, value in {"GOPROXY": server.url, "GOSUMDB": "off", "GOMODCACHE": str(tmp_path / "modules")}.items():
            monkeypatch.setenv(name, value)
        command = [str(toolchain.path), "mod", "tidy"]
        subprocess.run(command, cwd=directory, env=toolchain.environment(), check=True, capture_output=True)
        subprocess.run(["chmod", "-R", "u+w", str(tmp_path / "modules")], check=True)
        shutil.rmtree(tmp_path / "modules")
        server.asked.clear()
        yield GoProject(component, tmp_path / "out", load_versions())
    subprocess.run(["chmod", "-R", "u+w", str(tmp_path / "modules")], check=False)  # go makes it read-only


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET, Fault.SHORT])
def test_go_build_goes_on_after_a_stumble(
    proxy: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """go itself asks once only."""
    with go_project(tmp_path, proxy, monkeypatch) as project:
        proxy.faults["GET /example.invalid/stumble/@v/v1.0.0.zip"] = [fault, fault]
        binary = project.build()
        assert subprocess.run([binary], capture_output=True, text=True, check=True).stderr == "stumble\n"
        assert sum(line.endswith(".zip") for line in proxy.asked) >= 3


def test_go_build_that_cannot_have_its_modules_is_reported(
    proxy: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With module and what the proxy reported; no binary is there, and the next run makes it."""
    with go_project(tmp_path, proxy, monkeypatch) as project:
        proxy.always["GET /example.invalid/stumble/@v/v1.0.0.zip"] = Fault.ERROR
        message = (
            r"(?s)go build of stumbler 1.0.0 in tools/stumbler failed:.*example.invalid/stumble@v1.0.0.*500 Internal"
        )
        with pytest.raises(UserError, match=message) as error:
            project.build()
        assert link_for(error.value) == "docs/troubleshooting.md#a-tool-is-not-available"
        assert sum(line.endswith(".zip") for line in proxy.asked) == 3
        assert list(project.output.iterdir()) == []
        proxy.always.clear()
        assert project.build().exists()
