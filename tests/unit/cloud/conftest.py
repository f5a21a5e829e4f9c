"""A clouds.yaml and a key, so that the program runs as on an operator's machine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.cloud import clouds_file
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.loader import load_site

from .recorder import Recorder, run_program

Recorded = Callable[[str], tuple[Recorder, dict[str, Any]]]
SITES = sorted(file.parent.name for file in (REPOSITORY / "inventories").glob("*/site.yaml"))
SITES_WITH_CLOUD = [s for s in SITES if load_site(REPOSITORY / "inventories" / s / "site.yaml").cloud is not None]
PASSWORD = "administrator-password"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITest strata-test"


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State directory with a key pair per site, and a clouds.yaml with an entry per site."""
    prepare(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """`recorded("lab")` → what the program asks for and its outputs; it runs once for all tests."""

    @functools.cache
    def run(site: str) -> tuple[Recorder, dict[str, Any]]:
        recorder = Recorder()
        with pytest.MonkeyPatch.context() as monkeypatch:
            prepare(tmp_path_factory.mktemp("recorded"), monkeypatch)
            return recorder, run_program("cloud", site, recorder)

    return run


def prepare(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the directory that of an operator of all sites."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(directory / "state"))
    monkeypatch.delenv("STRATA_SITE_FILE", raising=False)
    entries = {}
    for name in SITES_WITH_CLOUD:
        write_key(name)
        cloud = load_site(REPOSITORY / "inventories" / name / "site.yaml").cloud
        assert cloud is not None
        for entry in vars(clouds_file.entries(name, cloud)).values():
            entries[entry] = cloud_entry()
    write_clouds(directory, entries)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(directory / "clouds.yaml"))


def write_key(site: str) -> None:
    """The site's public key."""
    public = SitePaths(site).create().ssh_key.with_suffix(".pub")
    public.write_text(PUBLIC_KEY + "\n")


def cloud_entry() -> dict[str, object]:
    """An administrator's entry of clouds.yaml."""
    auth = {"auth_url": "http://192.0.2.1:5000/v3", "username": "admin", "password": PASSWORD}
    return {"auth": {**auth, "project_name": "admin", "user_domain_name": "Default"}, "region_name": "RegionOne"}


def write_clouds(directory: Path, entries: dict[str, dict[str, object]]) -> None:
    """clouds.yaml with these entries."""
    (directory / "clouds.yaml").write_text(yaml.safe_dump({"clouds": entries}))
