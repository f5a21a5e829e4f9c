"""Helm charts of other projects: from the mirror, their project, or a substitute in lab/charts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError
from strata.progress import Progress
from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain.release import Reachability, Unavailable, check_digest
from strata.toolchain.versions import Chart, Versions, load_versions

SUBSTITUTES = REPOSITORY / "lab" / "charts"
PULL_SECONDS = 60
_unavailable: dict[tuple[Path, str, Path | None], Unavailable] = {}
"""What this process has tried in vain: `up` fetches charts before it checks values, and again as a step."""


@dataclass(frozen=True)
class ChartReport:
    """One pinned chart.

    Args:
        name: of the chart.
        version: as pinned.
        source: `mirror` or `release` for the project's chart, `substitute` for the one in lab/charts, None for neither.
        path: the chart's directory; None where there is none.
        note: why the project's chart is not used; empty if it is.
    """

    name: str
    version: str
    source: str | None
    path: Path | None
    note: str


def _directory(name: str, chart: Chart) -> Path:
    digest = (chart.digest or "").removeprefix("sha256:")[:12]
    return cache_directory() / "charts" / f"{chart.version}-{digest}" / name


def _substitute(name: str) -> Path | None:
    path = SUBSTITUTES / name
    return path if (path / "Chart.yaml").is_file() else None


def report(versions: Versions | None = None) -> list[ChartReport]:
    """Every pinned chart, without fetching any."""
    reports = []
    for name, chart in (versions or load_versions()).charts.items():
        directory = _directory(name, chart)
        if directory.is_dir():
            source = (directory.parent / "source").read_text(encoding="utf-8")
            reports.append(ChartReport(name, chart.version, source, directory, ""))
        else:
            path = _substitute(name)
            note = _reason_file(name).read_text(encoding="utf-8") if _reason_file(name).is_file() else "not fetched yet"
            reports.append(ChartReport(name, chart.version, "substitute" if path else None, path, note))
    return reports


def chart_directory(name: str, versions: Versions | None = None, *, substitutes: bool) -> Path | None:
    """Directory of a pinned chart: the fetched one, else its substitute; None where there is neither.

    Args:
        name: of the chart.
        versions: None for versions.yaml.
        substitutes: whether the site may have a substitute.
    """
    for chart in report(versions):
        if chart.name == name and (substitutes or chart.source != "substitute"):
            return chart.path
    return None


def ensure_charts(
    progress: Progress,
    names: Collection[str],
    mirror: Path | None = None,
    versions: Versions | None = None,
    *,
    substitutes: bool,
) -> list[str]:
    """Fetches pinned charts that are not in the cache.

    Args:
        progress: receives status messages.
        names: of the charts; those that versions.yaml does not pin are ignored.
        mirror: the mirror directory; None: STRATA_MIRROR, where that is set.
        versions: None for versions.yaml.
        substitutes: whether the site may have the substitute of a chart that is not available.

    Returns:
        Names of the charts that were fetched.

    Raises:
        UserError: the mirror's chart has the wrong digest or versions.yaml pins none, or charts are not available;
            names all of them, each with what to put into the mirror.
    """
    if mirror is None and (setting := os.environ.get("STRATA_MIRROR")):
        mirror = Path(setting)
    fetched = []
    missing: dict[str, tuple[Chart, Unavailable]] = {}
    for name, chart in (versions or load_versions()).charts.items():
        if name not in names or _directory(name, chart).is_dir():
            continue
        progress.update(f"fetching chart {name} {chart.version}")
        try:
            _fetch_once(name, chart, mirror)
            fetched.append(name)
        except Unavailable as reason:
            if substitutes and _substitute(name) is not None:
                _reason_file(name).parent.mkdir(parents=True, exist_ok=True)
                _reason_file(name).write_text(str(reason), encoding="utf-8")
            else:
                missing[name] = chart, reason
    if missing:
        raise _not_available(missing, mirror, substitutes=substitutes)
    return fetched


def _not_available(
    missing: Mapping[str, tuple[Chart, Unavailable]], mirror: Path | None, *, substitutes: bool
) -> UserError:
    """The error about charts that no source has."""
    place = f"{mirror}/charts/" if mirror else "<mirror>/charts/, and set STRATA_MIRROR=<mirror>"
    pulls = [
        f"helm pull {chart.repository}/{name} --version {chart.version}"
        if chart.oci
        else f"helm pull {name} --repo {chart.repository} --version {chart.version}"
        for name, (chart, _) in missing.items()
    ]
    fix = f"on a host that reaches the repository, run `{'`, `'.join(pulls)}`; put the archive into {place}"
    if not substitutes and all(_substitute(name) for name in missing):
        fix += "; to rehearse the site without it, set allow_substitutes: true in site.yaml"
    lines = [f"chart {name} {chart.version} is not available: {reason}" for name, (chart, reason) in missing.items()]
    return UserError("\n".join(lines), fix=fix, see="a-tool-is-not-available")


def _reason_file(name: str) -> Path:
    """Why the last fetch of a chart failed."""
    return cache_directory() / "charts" / f"{name}.unavailable"


def _fetch_once(name: str, chart: Chart, mirror: Path | None) -> None:
    """Raises Unavailable where no source has the chart, or had it when this process tried."""
    key = (_directory(name, chart), chart.repository, mirror)
    if key in _unavailable:
        raise _unavailable[key]
    try:
        _fetch(name, chart, mirror)
    except Unavailable as reason:
        _unavailable[key] = reason
        raise


def _fetch(name: str, chart: Chart, mirror: Path | None) -> None:
    """Raises Unavailable where no source has the chart."""
    archive = mirror / "charts" / f"{name}-{chart.version}.tgz" if mirror else None
    mirrored = archive is not None and archive.is_file()
    if chart.digest is None:
        if mirrored:
            raise UserError(
                f"{archive} is refused: versions.yaml pins no digest for chart {name}, so it cannot be verified",
                fix=f"compare it with the project's release, then set charts.{name}.digest in versions.yaml to the "
                f"output of: sha256sum {archive}, prefixed with sha256:",
            )
        raise Unavailable("versions.yaml pins no digest for it, so it is not downloaded")
    target = _directory(name, chart)
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent.parent))
    try:
        if archive is not None and mirrored:
            if problem := check_digest(archive, chart.digest):
                raise UserError(f"{archive} is refused: {problem}", fix="replace the file in the mirror by the release")
            source = "mirror"
        else:
            archive, source = _pull(name, chart, staging), "release"
            if problem := check_digest(archive, chart.digest):
                raise Unavailable(f"{chart.repository} is refused: {problem}")
        with tarfile.open(archive) as members:
            members.extractall(staging, filter="data")
        if not (staging / name / "Chart.yaml").is_file():
            raise Unavailable(f"{archive.name} holds no {name}/Chart.yaml")
        (staging / "source").write_text(source, encoding="utf-8")
        if not target.parent.exists():
            staging.rename(target.parent)
    except (tarfile.TarError, OSError) as error:
        raise Unavailable(f"chart {name} cannot be unpacked: {error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _pull(name: str, chart: Chart, into: Path) -> Path:
    """Downloads a chart with helm, from a repository or a registry; returns the archive."""
    if not chart.repository.startswith("http://") and (reason := Reachability().why_not(chart.repository)):
        raise Unavailable(reason)
    helm = str(Path(sys.executable).with_name("helm"))
    what = [f"{chart.repository}/{name}"] if chart.oci else [name, "--repo", chart.repository]
    homes = {f"HELM_{kind}_HOME": str(into / ".helm") for kind in ("CACHE", "CONFIG", "DATA")}
    try:
        done = subprocess.run(
            [helm, "pull", *what, "--version", chart.version, "--destination", str(into)],
            capture_output=True,
            text=True,
            timeout=PULL_SECONDS,
            env=os.environ | homes,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{chart.repository}: {error}") from None
    archives = list(into.glob("*.tgz"))
    if done.returncode != 0 or not archives:
        lines = done.stderr.strip().splitlines() or [f"helm ended with status {done.returncode}"]
        raise Unavailable(f"{chart.repository}: {lines[-1][:300]}")
    return archives[0]
