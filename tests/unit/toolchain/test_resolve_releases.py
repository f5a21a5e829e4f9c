"""ensure(): archives of releases, from a mirror or downloaded."""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata.toolchain import release
from strata.toolchain.cache import Source
from strata.toolchain.resolve import ensure
from strata.toolchain.versions import Versions, architecture


def archive(path: Path, **binaries: str) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in binaries.items():
            member = tarfile.TarInfo(f"suite/bin/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return "sha512:" + hashlib.sha512(path.read_bytes()).hexdigest()


@pytest.fixture
def pin_release(definition: dict[str, Any]) -> Callable[[str], None]:
    """Pins the digest of the release before versions.yaml is read."""

    def pin(digest: str) -> None:
        definition["components"]["suite"]["release"]["digest"] = {architecture(): digest}

    return pin


@pytest.fixture
def released(tmp_path: Path, pin_release: Callable[[str], None]) -> Path:
    """The release's archive; its digest is pinned. Ask for it before `pinned`."""
    file = tmp_path / f"suite-{architecture()}.tar.gz"
    pin_release(archive(file, alpha="released alpha", beta="released beta"))
    return file


def test_official_archive_in_the_mirror(
    released: Path, pinned: Versions, builds: list[list[str]], tmp_path: Path
) -> None:
    place = tmp_path / "mirror/suite/1.2.3"
    place.mkdir(parents=True)
    (place / released.name).write_bytes(released.read_bytes())
    tool = ensure(["beta"], Silent(), mirror=tmp_path / "mirror")["beta"]
    assert (tool.source, tool.path.read_text()) == (Source.MIRROR, "released beta")
    (place / released.name).write_bytes(b"not what was released")
    with pytest.raises(UserError, match=r"is refused: .* has sha512 .*, versions.yaml pins"):
        ensure(["alpha"], Silent(), mirror=tmp_path / "mirror")


def test_download_of_the_release(
    released: Path, pinned: Versions, builds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release.Reachability, "_ask", lambda *_: None)
    asked = serve(monkeypatch, released.read_bytes())
    tools = ensure(["suite"], Silent())
    assert {t.source for t in tools.values()} == {Source.RELEASE}
    assert tools["alpha"].path.read_text() == "released alpha"
    assert [url for url, _ in asked] == [f"https://releases.invalid/v1.2.3/{released.name}"]


def test_download_goes_on_where_it_stopped(
    released: Path, pinned: Versions, builds: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(release.Reachability, "_ask", lambda *_: None)
    content = released.read_bytes()
    digest = pinned.components["suite"].release.digest[architecture()]  # type: ignore[union-attr]
    downloads = tmp_path / "cache/downloads"
    downloads.mkdir(parents=True)
    (downloads / f"{digest[7:19]}-{released.name}").write_bytes(content[:40])
    asked = serve(monkeypatch, content)
    assert ensure(["alpha"], Silent())["alpha"].source is Source.RELEASE
    assert [header for _, header in asked] == ["bytes=40-"]


def test_release_with_a_digest_mismatch_is_refused_and_built_instead(
    released: Path, pinned: Versions, builds: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(release.Reachability, "_ask", lambda *_: None)
    serve(monkeypatch, b"something else")
    assert ensure(["alpha"], Silent())["alpha"].source is Source.BUILD
    assert list((tmp_path / "cache/downloads").iterdir()) == []


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[tuple[str, str | None]]:
    """Answers requests with the content, from where they ask for it; returns what was asked."""
    asked: list[tuple[str, str | None]] = []

    class Answer(io.BytesIO):
        status = 200
        headers: dict[str, str] = {}  # noqa: RUF012

    def urlopen(request: Any, timeout: float) -> Answer:
        assert timeout > 0
        asked.append((request.full_url, request.get_header("Range")))
        begin = int((request.get_header("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        answer = Answer(content[begin:])
        answer.status = 206 if begin else 200
        return answer

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked
