"""Commands in a build use the deployment host's package registries."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.images.package_clients import CLIENTS, mounts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for client in CLIENTS:
        for name in client.variables:
            monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / ".config" / "uv").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_files_of_the_host_are_mounted(home: Path, tmp_path: Path) -> None:
    (home / ".npmrc").write_text("registry=https://npm.example.org\n")
    (home / ".config" / "uv" / "uv.toml").write_text("")
    options = mounts(tmp_path)
    assert f"--volume={home}/.npmrc:/root/.npmrc:ro" in options
    assert f"--volume={home}/.config/uv/uv.toml:/etc/uv/uv.toml:ro" in options
    assert not [option for option in options if "settings.xml" in option]


def test_a_variable_replaces_the_file(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".npmrc").write_text("registry=https://npm.example.org\n")
    monkeypatch.setenv("npm_config_registry", "https://mirror.example.org/npm")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example.org/simple")
    options = mounts(tmp_path)
    assert f"--volume={tmp_path}/.npmrc:/root/.npmrc:ro" in options
    assert (tmp_path / ".npmrc").read_text() == "registry=https://mirror.example.org/npm\n"
    assert (tmp_path / "pip.conf").read_text() == "[global]\nindex-url = https://mirror.example.org/simple\n"
