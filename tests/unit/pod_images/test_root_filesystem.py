"""Which root filesystem is built, and when it is another one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.access import podman
from strata.errors import UserError
from strata.images import filesystem_build
from strata.images.apt_sources import sources_for
from strata.images.filesystem_build import ensure
from strata.images.root_filesystem import TRUST_HOST, RootFilesystem
from strata.progress import Silent


def test_digest_follows_content() -> None:
    filesystem = RootFilesystem("node", "12", ("a", "b"), (Path(__file__),))
    assert filesystem.digest() == RootFilesystem("node", "12", ("b", "a", "a"), (Path(__file__),)).digest()
    others = [
        RootFilesystem("node", "13", ("a", "b"), (Path(__file__),)),
        RootFilesystem("node", "12", ("a",), (Path(__file__),)),
        RootFilesystem("node", "12", ("a", "b"), (TRUST_HOST,)),
        RootFilesystem("node", "12", ("a", "b")),
        RootFilesystem("node", "12", ("a", "b"), (Path(__file__),), (Path(__file__),)),
    ]
    assert len({filesystem.digest(), *(o.digest() for o in others)}) == 6


class Tools:
    """mmdebstrap and podman that only count."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.built: list[Path] = []
        self.imported: list[str] = []

    def mmdebstrap(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        target = Path(command[-2])
        self.built.append(target)
        target.write_text("half" if self.status else "whole")
        if self.status:
            options["stdout"].write("E: no space left\n")  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(command, self.status)

    def podman(self, *arguments: str, stdin: bytes | None = None) -> str:  # noqa: ARG002
        self.imported.append(arguments[-1])
        return ""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tools:
    """Fakes, with an empty cache."""
    made = Tools()
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(filesystem_build, "sources_for", lambda release: f"deb archive {release} main\n")
    monkeypatch.setattr(subprocess, "run", made.mmdebstrap)
    monkeypatch.setattr(podman, "exists", lambda kind, name: kind == "image" and name in made.imported)
    monkeypatch.setattr(podman, "podman", made.podman)
    return made


def test_built_once_and_imported_again_when_podman_lost_it(tools: Tools) -> None:
    filesystem = RootFilesystem("test", "12", ("bash",))
    reference = ensure(filesystem, Silent(), ("CMD []",))
    assert reference == f"localhost/strata-test:{filesystem.digest()}"
    ensure(filesystem, Silent(), ("CMD []",))
    assert (len(tools.built), len(tools.imported)) == (1, 1)
    tools.imported.clear()
    ensure(filesystem, Silent(), ("CMD []",))
    assert (len(tools.built), len(tools.imported)) == (1, 1)


def test_failure_leaves_no_half_archive(tools: Tools) -> None:
    tools.status = 1
    filesystem = RootFilesystem("test", "12", ("bash",))
    with pytest.raises(UserError, match="no space left") as caught:
        ensure(filesystem, Silent(), ("CMD []",))
    assert ".log" in str(caught.value.fix)
    assert not list(tools.built[0].parent.glob("*.tar"))
    tools.status = 0
    ensure(filesystem, Silent(), ("CMD []",))
    assert tools.imported == [filesystem.reference]


def test_older_archives_go(tools: Tools) -> None:
    ensure(RootFilesystem("test", "12", ("bash",)), Silent(), ("CMD []",))
    ensure(RootFilesystem("test", "12", ("bash", "curl")), Silent(), ("CMD []",))
    ensure(RootFilesystem("other", "12", ("bash",)), Silent(), ("CMD []",))
    ensure(RootFilesystem("test-13", "13", ("bash",)), Silent(), ("CMD []",))
    ensure(RootFilesystem("test", "12", ("bash",)), Silent(), ("CMD []",))
    ensure(RootFilesystem("test", "12", ("bash", "nano")), Silent(), ("CMD []",))
    archives = list(tools.built[0].parent.glob("*.tar"))
    assert sorted(a.name.rpartition("-")[0] for a in archives) == ["other", "test", "test-13"]


SOURCES = """Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://mirror.example/sources
Suites: bookworm

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
"""


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    """An apt directory with one deb822 file and one foreign list."""
    directory = tmp_path / "sources.list.d"
    directory.mkdir()
    (directory / "debian.sources").write_text(SOURCES)
    (directory / "vendor.list").write_text("deb https://vendor.example/apt cloud-bookworm main\n")
    return tmp_path


def test_sources_are_the_hosts_mirror_for_the_release(apt: Path) -> None:
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    assert sources_for("13", directory=apt, codename="bookworm").splitlines() == [
        f"deb {key} http://mirror.example/debian trixie main",
        f"deb {key} http://mirror.example/debian trixie-updates main",
    ]


def test_one_line_sources(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("# deb http://no bookworm main\ndeb [arch=amd64] http://yes bookworm main\n")
    assert sources_for("12", directory=tmp_path, codename="bookworm") == "deb [arch=amd64] http://yes bookworm main\n"


def test_host_without_debian_archive(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Debian archive"):
        sources_for("12", directory=tmp_path, codename="bookworm")
