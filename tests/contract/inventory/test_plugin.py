"""The inventory plugin under the real ansible-inventory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY, SitePaths

SITES = sorted((REPOSITORY / "inventories").glob("*/site.yaml"))


def inventory(site_file: Path, state: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "ansible-inventory"
    return subprocess.run(
        [str(program), "-i", str(site_file), "--list"],
        cwd=REPOSITORY,
        env={**os.environ, "STRATA_STATE_DIR": str(state), "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=check,
    )


@pytest.mark.parametrize("site_file", SITES, ids=lambda f: f.parent.name)
def test_every_site_is_an_inventory_without_its_cloud(site_file: Path, tmp_path: Path) -> None:
    parsed = json.loads(inventory(site_file, tmp_path).stdout)
    assert parsed["_meta"]["hostvars"] or re.search("deployment: (existing|kolla)", site_file.read_text())
    assert not (tmp_path / site_file.parent.name).exists(), "an inventory only reads"


def test_instances_become_hosts_in_the_groups_of_their_roles(state_directory: Path, tmp_path: Path) -> None:
    instance = InstanceOutput(
        id="1", name="control-1", address="10.77.0.11", flavor="cpu.small", roles=("kube_control_plane",)
    )
    other = InstanceOutput(
        id="2", name="services-1", address="10.77.0.12", flavor="cpu.small", roles=("postgresql", "kine", "registry")
    )
    outputs = CloudOutputs(instances={"control-1": instance, "services-1": other}, networks={"platform": "n"})
    outputs.save(SitePaths("lab").create())
    parsed = json.loads(inventory(REPOSITORY / "inventories" / "lab" / "site.yaml", tmp_path).stdout)
    assert parsed["kube_control_plane"]["hosts"] == ["control-1"]
    assert set(parsed["base"]["hosts"]) == {"control-1", "services-1"}
    variables = parsed["_meta"]["hostvars"]["control-1"]
    assert variables["ansible_host"] == {"__ansible_unsafe": "10.77.0.11"}
    assert variables["strata_domain"] == {"__ansible_unsafe": "lab.strata.test"}


def test_a_wrong_site_file_is_answered_with_its_errors(tmp_path: Path) -> None:
    site_file = tmp_path / "site.yaml"
    site_file.write_text("name: Lab\ndomian: lab.strata.test\n")
    done = inventory(site_file, tmp_path / "state", check=False)
    assert done.returncode != 0
    assert "domian" in done.stderr
    assert "Traceback" not in done.stderr
