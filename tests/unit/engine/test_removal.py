"""`strata destroy` keeps the only key to machines that go on running, and states what it leaves on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from strata.cli.main import app
from strata.engine.changes.removal import remove_state
from strata.engine.keys import ensure_ssh_key
from strata.site.paths import SitePaths

SITE = """
name: metal
domain: metal.example
access: {ssh: [192.0.2.1/32]}
hosts:
  machines: [{name: storage-1, address: 192.0.2.5, roles: [nfs_server]}]
  nfs: {exports: [{name: data, path: /srv/nfs/data}]}
"""


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    site_paths = SitePaths("metal").create()
    ensure_ssh_key(site_paths)
    (site_paths.root / "secrets.vault.yaml").write_text("secret")
    (site_paths.outputs / "cloud.json").write_text("{}")
    return site_paths


def test_without_machines_nothing_stays(paths: SitePaths) -> None:
    remove_state(paths, keep_ssh_key=False)
    assert not paths.root.exists()


def test_destroy_names_the_machines_asks_and_keeps_the_key(paths: SitePaths, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(SITE)
    key = paths.ssh_key.read_text()
    refused = CliRunner().invoke(app, ["destroy", str(file)], input="n\n")
    assert refused.exit_code == 1
    assert "storage-1 (192.0.2.5): nfs_server" in refused.output
    assert (paths.root / "secrets.vault.yaml").exists()
    done = CliRunner().invoke(app, ["destroy", str(file)], input="y\n")
    assert done.exit_code == 0, done.output
    assert str(paths.ssh_key) in done.output.replace("\n", "")
    assert paths.ssh_key.read_text() == key
    assert {p.name for p in paths.root.iterdir()} - {"known_hosts"} == {"ssh_key", "ssh_key.pub"}
