"""Tools on demand: from the cache, else from the mirror, the official release, or a build."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from strata.errors import UserError
from strata.progress import Progress
from strata.site.paths import REPOSITORY
from strata.toolchain import cache, go, mirror, release
from strata.toolchain.cache import Source, Tool
from strata.toolchain.process import Processes
from strata.toolchain.release import Reachability, Unavailable
from strata.toolchain.versions import Component, Versions, architecture, load_versions

_AT_ONCE = 2
_TICK_SECONDS = 1.0

# Each build uses every processor; more at once, of several ensure() in parallel, would only use more memory.
_builds = threading.BoundedSemaphore(_AT_ONCE)


class ToolUnavailable(UserError):
    """No source has a tool; the message names each source and why not."""


@dataclass
class _Work:
    """What the workers of one ensure() share."""

    versions: Versions
    mirror: Path | None
    processes: Processes = field(default_factory=Processes)
    reachability: Reachability = field(default_factory=Reachability)
    lock: threading.Lock = field(default_factory=threading.Lock)
    doing: dict[str, tuple[float, str]] = field(default_factory=dict)

    def tell(self, component: str, text: str) -> None:
        with self.lock:
            begin = self.doing.get(component, (time.monotonic(), ""))[0]
            self.doing[component] = (begin, text)

    def done(self, component: str) -> None:
        with self.lock:
            self.doing.pop(component, None)

    def line(self, finished: int, total: int) -> str:
        with self.lock:
            parts = [f"{name} {_duration(begin)}: {text}" for name, (begin, text) in self.doing.items()]
        return f"{finished} of {total}; {'; '.join(parts)}" if parts else f"{finished} of {total}"


def _duration(begin: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - begin), 60)
    return f"{minutes}:{seconds:02}"


def mirror_directory(chosen: Path | None = None) -> Path | None:
    """The mirror to use: `chosen` (the site's), else $STRATA_MIRROR, else none."""
    if chosen is not None:
        return chosen
    value = os.environ.get("STRATA_MIRROR")
    return Path(value).expanduser().absolute() if value else None


def _compare(component: Component, name: str, path: Path, toolchain: go.GoToolchain) -> str:
    """Reports whether a build gave the same bits as the same Go gave before.

    No reason to refuse it: go.sum vouches for the sources, and a distribution may have patched its Go.
    """
    key = f"{toolchain.version}/{architecture()}"
    expected = component.binaries[name].reproducible.get(key)
    if expected is None:
        return ""
    same = cache.file_digest(path) == expected
    return f"same digest as pinned for {key}" if same else f"digest mismatch with the one pinned for {key}"


@dataclass(frozen=True)
class _Found:
    """A binary in the work directory, before it goes into the cache."""

    path: Path
    source: Source
    note: str = ""


def _obtain(work: _Work, name: str, component: Component, binaries: list[str]) -> list[Tool]:
    """Has the binaries of one component in the cache, whatever it takes."""

    def tell(text: str) -> None:
        work.tell(name, text)

    tell("asked for")
    with cache.component_lock(name, lambda process: tell(f"waiting for process {process}")) as staging:
        work.processes.check()
        tools = {binary: tool for binary in binaries if (tool := cache.find(binary, component))}
        missing = {b: cache.tool_directory(b, component) for b in binaries if b not in tools}
        if not missing:  # another run has done it
            return list(tools.values())
        for binary in missing:
            cache.remove_partial(binary)
        begin = time.monotonic()
        paths = _from_first_source(work, name, component, list(missing), staging, tell)
        seconds = time.monotonic() - begin
        companions = component.build.companions if component.build else ()
        files = tuple(REPOSITORY / component.build.directory / file for file in companions) if component.build else ()
        for binary, at in paths.items():
            tools[binary] = cache.store(
                binary,
                component,
                at.path,
                directory=missing[binary],
                source=at.source,
                seconds=seconds,
                note=at.note,
                companions=files,
            )
        return list(tools.values())


def _from_first_source(
    work: _Work, name: str, component: Component, binaries: list[str], staging: Path, tell: Callable[[str], None]
) -> dict[str, _Found]:
    refusals: list[str] = []
    try:
        tell("copying from the mirror")
        paths = mirror.fetch(work.mirror, name, component, binaries, staging)
        return {binary: _Found(path, Source.MIRROR) for binary, path in paths.items()}
    except Unavailable as reason:
        refusals.append(f"mirror: {reason}")
    try:
        tell("asking for the release")
        paths = release.fetch(
            component,
            binaries,
            staging,
            work.reachability,
            lambda text: tell(f"downloading, {text}"),
            work.processes.check,
        )
        return {binary: _Found(path, Source.RELEASE) for binary, path in paths.items()}
    except Unavailable as reason:
        refusals.append(f"release: {reason}")
    if component.build is None:
        refusals.append("build: its source is in no registry")
        raise ToolUnavailable(
            f"{name} {component.version} is not available:\n    " + "\n    ".join(refusals),
            fix=_for_the_mirror(work.mirror, name, component, binaries),
        )
    tell("waiting for other builds")
    while not _builds.acquire(timeout=_TICK_SECONDS):
        work.processes.check()
    try:
        tell("building")
        built, toolchain = go.build(name, component, component.build, binaries, staging, work.versions, work.processes)
    finally:
        _builds.release()
    return {
        binary: _Found(path, Source.BUILD, _compare(component, binary, path, toolchain))
        for binary, path in built.items()
    }


def _for_the_mirror(directory: Path | None, name: str, component: Component, binaries: Sequence[str]) -> str:
    """What to put where, for a component that is not built."""
    place = f"{directory or '<mirror>'}/{name}/{component.version}/"
    setting = "" if directory else ", and set STRATA_MIRROR=<mirror>"
    if component.release is None or architecture() not in component.release.digest:
        return f"put it and its SHA256SUMS into {place}linux-{architecture()}/{setting}"
    urls = dict.fromkeys(release.release_url(component, component.release, binary) for binary in binaries)
    return f"on a host that reaches it, download {' and '.join(urls)}; put it into {place}{setting}"


def _all_built(versions: Versions) -> bool:
    """Whether no tool is left that a build would have to make for a site."""
    buildable = [component for component in versions.components.values() if component.build and not component.on_demand]
    return all(cache.find(name, component) for component in buildable for name in component.binaries)


def _count_packages(work: _Work) -> None:
    """Shows how many packages a build has compiled, so that a long wait is seen to move."""
    for name, (_, text) in list(work.doing.items()):
        if text.startswith("building"):
            try:
                count = go.build_log(name).read_bytes().count(b"\n")
            except OSError:
                continue
            work.tell(name, f"building, {count} packages" if count else "building")


def location(name: str) -> Path:
    """Where `ensure` puts a tool; the folder's name changes with what the tool is made from.

    Raises:
        UserError: versions.yaml pins no tool of that name.
    """
    versions = load_versions()
    (component,) = versions.select((name,))
    return cache.tool_directory(name, versions.components[component]) / name


def ensure(names: Sequence[str] | None, progress: Progress, *, mirror: Path | None = None) -> dict[str, Tool]:
    """Puts tools into the cache and returns where they are.

    Each comes from the first source that has it: the mirror directory, the official release (when its digest is
    pinned and its host answers), a build. What an interrupted run finished or compiled is not done again. Go's caches
    are deleted once every tool is there.

    Args:
        names: binaries or components of versions.yaml. None: all, without those on demand and those that cannot be
            had here and have a substitute.
        progress: receives status messages.
        mirror: the site's mirror directory; else $STRATA_MIRROR is used.

    Returns:
        The tools by name, in the order of versions.yaml.

    Raises:
        ToolUnavailable: no source has one of the tools that were asked for.
        UserError: a digest is wrong, a build failed, or a name is unknown.
    """
    versions = load_versions()
    selected = versions.select(names)
    work = _Work(versions, mirror_directory(mirror))
    tools: dict[str, Tool] = {}
    missing: dict[str, list[str]] = {}
    for component, binaries in selected.items():
        for binary in binaries:
            if tool := cache.find(binary, versions.components[component]):
                tools[binary] = tool
            else:
                missing.setdefault(component, []).append(binary)
    if missing:
        progress.update(f"{', '.join(missing)} missing")
        for tool in _obtain_all(work, missing, progress, required=names is not None):
            tools[tool.name] = tool
    if go.caches_on_disk() and _all_built(versions):
        go.empty_caches()
    return {name: tools[name] for binaries in selected.values() for name in binaries if name in tools}


def _obtain_all(work: _Work, missing: dict[str, list[str]], progress: Progress, *, required: bool) -> list[Tool]:
    """Works on two components at a time; the first error ends the others, and is raised."""
    tools: list[Tool] = []
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toolchain")
    futures: dict[Future[list[Tool]], str] = {
        pool.submit(_obtain, work, name, work.versions.components[name], binaries): name
        for name, binaries in missing.items()
    }
    total = len(futures)
    try:
        while futures:
            finished, _ = wait(futures, _TICK_SECONDS, FIRST_COMPLETED)
            for future in finished:
                name = futures.pop(future)
                work.done(name)
                try:
                    tools += future.result()
                except ToolUnavailable:
                    if required or work.versions.components[name].substitute is None:
                        raise
            _count_packages(work)
            progress.update(work.line(total - len(futures), total))
    except BaseException:
        work.processes.cancel()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return tools
