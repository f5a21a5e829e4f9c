"""Templates of the roles as Ansible renders them, and the real kubeadm."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from strata.site.paths import REPOSITORY
from strata.toolchain import bin_directory

ROLES = REPOSITORY / "ansible" / "roles"
Render = Callable[[str, Mapping[str, object]], str]
Kubeadm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def render() -> Render:
    """`render("kube_control_plane/templates/kubeadm.yaml.j2", variables)` → text."""

    def call(template: str, variables: Mapping[str, object]) -> str:
        templar = Templar(loader=DataLoader(), variables={"ansible_managed": "by Ansible", **variables})
        text = (ROLES / template).read_text()
        return str(templar.template(trust_as_template(text))) + "\n"

    return call


@pytest.fixture(scope="session")
def kubeadm() -> Kubeadm:
    """`kubeadm("config", "validate", …)`; skips where the pinned one has not been built yet."""
    program = bin_directory() / "kubeadm"
    if not program.exists():
        pytest.skip("the pinned kubeadm is not in the cache: `strata up lab` or strata.toolchain.ensure(['kubeadm'])")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)

    return call


@pytest.fixture
def configuration(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a configuration to a file."""

    def write(text: str) -> Path:
        file = tmp_path / "kubeadm.yaml"
        file.write_text(text)
        return file

    return write
