"""Kolla-Ansible's own environment and the renderings of sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata.progress import Silent
from strata.site.context import SiteContext
from strata.toolchain.python_environment import Environment, ensure_environment

from .rendering import Rendering, cnaf, tacc

Render = Callable[[str], Rendering]


@pytest.fixture(scope="session")
def kolla() -> Environment:
    """The pinned Kolla-Ansible."""
    return ensure_environment("kolla-ansible", Silent())


@pytest.fixture
def render(kolla: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Render:
    """From a site's name to its configuration directory, ready to be rendered."""

    def prepare(name: str) -> Rendering:
        monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
        for user in ("GLANCE", "CINDER"):
            monkeypatch.setenv(f"CEPH_{user}", f"key-of-{user}")
        file = tmp_path / "sites" / name / "site.yaml"
        file.parent.mkdir(parents=True)
        file.write_text({"tacc": tacc, "cnaf": cnaf}[name]())
        (file.parent / "catalogue.json").write_bytes(Path("inventories/tacc/catalogue.json").read_bytes())
        return Rendering(SiteContext.load(file), kolla, tmp_path / name)

    return prepare
