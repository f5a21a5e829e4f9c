"""The real promtool, amtool and Prometheus, of the Debian release that Strata's images take them from."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.images.apt_sources import sources_for
from strata.locks import file_lock
from strata.progress import Silent
from strata.site.paths import cache_directory

RELEASE = "13"
PACKAGES = ("prometheus", "promtool", "prometheus-alertmanager")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@functools.cache
def prometheus_binaries() -> Path:
    """Directory with `prometheus`, `promtool` and `amtool`: Debian's packages, unpacked and not installed."""
    directory = cache_directory() / "tests" / f"prometheus-debian-{RELEASE}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(directory.with_suffix(".lock"), Silent(), "another test run to unpack Prometheus"):
        if not (directory / "usr" / "bin" / "amtool").exists():
            _unpack(directory)
    return directory / "usr" / "bin"


def _unpack(directory: Path) -> None:
    lists = directory / "apt"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (directory / "sources.list").write_text(sources_for(RELEASE))
    options = [
        f"--option={key}={value}"
        for key, value in {
            "Dir::Etc::SourceList": directory / "sources.list", "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": lists, "Dir::Cache": lists, "APT::Sandbox::User": "root",
        }.items()
    ]  # fmt: skip
    for command in (["update", "--quiet"], ["download", "--quiet", *PACKAGES]):
        whole = ["apt-get", *options, *command]
        done = subprocess.run(whole, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"Debian {RELEASE} cannot be reached: {done.stderr.strip()[-200:]}")
    for package in PACKAGES:
        (file,) = directory.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "--extract", file, directory], check=True)
        file.unlink()


def runner(binary: Path) -> Run:
    """A function that runs a binary: `run("check", "rules", file)` → how it ended."""

    def run(*arguments: Any, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(binary), *map(str, arguments)]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)

    return run
