"""Official releases: reached, downloaded, checked, unpacked."""

from __future__ import annotations

import errno
import http.client
import ssl
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from strata.retry import attempts
from strata.site.paths import cache_directory
from strata.toolchain.cache import file_digest
from strata.toolchain.versions import Component, Release, architecture

REACH_SECONDS = 3.0
_READ_SECONDS = 60
_CHUNK = 1 << 20
_PAUSES = (1.0, 2.0, 3.0)
"""Seconds between attempts at a download."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Unavailable(Exception):
    """This source does not have the tool; the message gives the reason, and the next source is asked."""


class Reachability:
    """Finds out once per host whether it answers."""

    def __init__(self, seconds: float = REACH_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: dict[str, str | None] = {}

    def why_not(self, url: str) -> str | None:
        """None if the host of `url` answers, else the reason."""
        host = urlsplit(url).netloc
        with self._lock:
            if host not in self._known:
                self._known[host] = self._ask(host)
            return self._known[host]

    def _ask(self, host: str) -> str | None:
        reason: list[str | None] = [f"{host} did not respond within {self._seconds:g} s"]

        def ask() -> None:
            request = urllib.request.Request(f"https://{host}/", method="HEAD")
            try:
                with urllib.request.urlopen(request, timeout=self._seconds):  # noqa: S310
                    reason[0] = None
            except urllib.error.HTTPError:
                reason[0] = None  # an answer
            except (OSError, ssl.SSLError) as error:
                reason[0] = f"{host} cannot be reached: {getattr(error, 'reason', error)}"

        # A name server that does not respond is not bound by urlopen's timeout, so the wait is.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._seconds)
        return reason[0]


def release_url(component: Component, release: Release, binary: str) -> str:
    """Address of the file that holds the binary for this machine."""
    ours = architecture()
    return component.expand(release.url, architecture=release.architecture.get(ours, ours), binary=binary)


def check_digest(file: Path, digest: str, pinned_by: str = "versions.yaml") -> str | None:
    """None if the file has the digest (`algorithm:hex`), else a sentence with both."""
    algorithm, _, expected = digest.partition(":")
    actual = file_digest(file, algorithm)
    if actual == expected:
        return None
    return f"{file.name} has {algorithm} {actual}, {pinned_by} pins {expected}"


def download(
    url: str,
    digest: str,
    progress: Callable[[str], None],
    check: Callable[[], None],
    pinned_by: str = "versions.yaml",
) -> Path:
    """Downloads a file into the cache, going on where an interrupted run stopped, and where the server broke off.

    Args:
        url: of the file.
        digest: `algorithm:hex`; the file is refused and removed when it has another.
        progress: receives status messages.
        check: called between pieces; may raise to stop.
        pinned_by: the file that names the digest.

    Raises:
        Unavailable: the server refused, broke off repeatedly, or sent a file with another digest.
    """
    directory = cache_directory() / "downloads"
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{digest[7:19]}-{url.rsplit('/', 1)[-1]}"
    for last in attempts(_PAUSES):
        try:
            _continue(url, partial, progress, check)
            break
        except urllib.error.HTTPError as error:
            said = f"HTTP {error.code} {error.reason}"
            final = error.code < 500 and error.code != 429
        except (OSError, http.client.HTTPException) as error:
            said, final = str(getattr(error, "reason", error)), isinstance(error, OSError) and error.errno in _FULL
        if final or last:
            raise Unavailable(f"{url}: {said}")
        progress(f"asking again: {said}")
        check()
    if problem := check_digest(partial, digest, pinned_by):
        partial.unlink()
        raise Unavailable(f"{url} is refused: {problem}")
    return partial


def _continue(url: str, partial: Path, progress: Callable[[str], None], check: Callable[[], None]) -> None:
    """Downloads what is missing of a file.

    Raises:
        OSError, http.client.HTTPException: the server refused, or broke off; what came is kept.
    """
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310 - https by the model
    try:
        with urllib.request.urlopen(request, timeout=_READ_SECONDS) as answer:  # noqa: S310
            resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            size = int(answer.headers.get("Content-Length") or 0) + (have if resumed else 0)
            with partial.open("ab" if resumed else "wb") as output:
                while chunk := answer.read(_CHUNK):
                    check()
                    output.write(chunk)
                    progress(f"{output.tell() >> 20} of {size >> 20} MiB" if size else f"{output.tell() >> 20} MiB")
                if output.tell() < size:  # read() with a size does not report that
                    raise ConnectionResetError(f"broke off after {output.tell()} of {size} bytes")
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # everything was there already
            raise


def unpack(file: Path, component: Component, release: Release, binaries: list[str], into: Path) -> dict[str, Path]:
    """Takes the binaries out of a checked release file.

    Raises:
        Unavailable: the archive does not hold one of them.
    """
    if release.member is None:
        return {name: _write(file.open("rb"), into / name) for name in binaries}
    names = {component.expand(release.member, binary=name): name for name in binaries}
    paths: dict[str, Path] = {}
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                name = names.get(member.name.removeprefix("./"))
                stream = archive.extractfile(member) if name else None
                if name and stream:
                    paths[name] = _write(stream, into / name)
                if len(paths) == len(names):
                    break
    except (tarfile.TarError, OSError) as error:
        raise Unavailable(f"{file.name} cannot be unpacked: {error}") from None
    if missing := [member for member, name in names.items() if name not in paths]:
        raise Unavailable(f"{file.name} holds no {', '.join(missing)}")
    return paths


def _write(stream: IO[bytes], path: Path) -> Path:
    with stream, path.open("wb") as output:
        while chunk := stream.read(_CHUNK):
            output.write(chunk)
    return path


def fetch(
    component: Component,
    binaries: list[str],
    into: Path,
    reachability: Reachability,
    progress: Callable[[str], None],
    check: Callable[[], None],
) -> dict[str, Path]:
    """Binaries from the official release.

    Raises:
        Unavailable: there is no release, no pinned digest, no way to the host, or the bits are wrong.
    """
    release = component.release
    if release is None:
        raise Unavailable("the project releases no binary")
    digest = release.digest.get(architecture())
    if digest is None:
        raise Unavailable(f"versions.yaml pins no digest of it for {architecture()}, so it is not downloaded")
    if reason := reachability.why_not(release.url):
        raise Unavailable(reason)
    urls = {release_url(component, release, name) for name in binaries}
    paths: dict[str, Path] = {}
    for url in urls:
        file = download(url, digest, progress, check)
        paths |= unpack(file, component, release, binaries, into)
        file.unlink()
    return paths
