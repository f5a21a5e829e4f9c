"""What the roles write on nodes with real GPUs, rendered by the real Ansible; other nodes keep what they have."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from strata.roles import DIRECTORY
from strata_bench.local_playbook import run_locally

ROLES = ("gpu_node", "kubernetes_common")
CRI = "io.containerd.grpc.v1.cri"
FACTS = {
    "ansible_managed": "Strata",
    "ansible_facts": {"kernel": "6.12.48+deb13-cloud-amd64", "distribution_major_version": "13"},
    "kubernetes_common_in_container": False,
    "kubernetes_common_systemd_cgroup": True,
    "kubernetes_common_pause_image": "registry.example.org/pause:3.10",
    "gpu_node_driver": {"branch": 580, "open_kernel_modules": False, "gpus": 2},
    "gpu_node_versions": {"container-toolkit": "1.18.2", "cuda-keyring": "1.1-1"},
}
EXPRESSIONS = {
    "plain": "{{ lookup('ansible.builtin.template', config) }}",
    "nvidia": "{{ lookup('ansible.builtin.template', config, template_vars=nvidia) }}",
    "files": "{{ _gpu_node_files }}",
    "packages": "{{ _gpu_node_packages }}",
    "archive": "{{ _gpu_node_driver_archive }}",
}


def play_it(folder: Path, play: dict[str, Any], variables: dict[str, Any]) -> str:
    """Runs one play on this machine; its output."""
    done = run_locally(folder / "playbook.yml", "gpu-1", play, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each expression by its name, in one run of Ansible."""
    folder = tmp_path_factory.mktemp("rendered")
    files = [DIRECTORY / role / kind / "main.yml" for role in ROLES for kind in ("defaults", "vars")]
    config = {"config": str(DIRECTORY / "kubernetes_common" / "templates" / "config.toml.j2")}
    tasks = [{"ansible.builtin.copy": {"dest": str(folder / "out.json"), "content": "{{ wanted | to_json }}"}}]
    play = {
        **{"hosts": "all", "gather_facts": False, "vars_files": [str(file) for file in files], "tasks": tasks},
        "vars": {**config, "nvidia": {"kubernetes_common_nvidia_runtime": True}, "wanted": EXPRESSIONS},
    }
    play_it(folder, play, FACTS)
    output: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return output


def test_other_nodes_keep_their_container_runtime(rendered: dict[str, Any]) -> None:
    plain = rendered["plain"]
    assert "nvidia" not in plain.lower()
    assert "cdi" not in plain
    assert plain.endswith("SystemdCgroup = true\n")
    runtimes = tomllib.loads(plain)["plugins"][CRI]["containerd"]["runtimes"]
    assert set(runtimes) == {"runc"}


def test_nodes_with_real_gpus_have_a_second_runtime(rendered: dict[str, Any]) -> None:
    cri = tomllib.loads(rendered["nvidia"])["plugins"][CRI]
    assert cri["enable_cdi"] is True
    containerd = cri["containerd"]
    # only the device plugin's pods ask for it: an image's own NVIDIA_VISIBLE_DEVICES gives nobody a GPU
    assert containerd["default_runtime_name"] == "runc"
    assert containerd["runtimes"]["nvidia"]["runtime_type"] == containerd["runtimes"]["runc"]["runtime_type"]
    assert containerd["runtimes"]["nvidia"]["options"] == {
        "BinaryName": "/usr/bin/nvidia-container-runtime",
        "SystemdCgroup": True,
    }


def test_a_v100_gets_the_proprietary_modules_and_headers_of_its_kernel(rendered: dict[str, Any]) -> None:
    packages = rendered["packages"]
    assert {"nvidia-driver-cuda", "nvidia-kernel-dkms", "nvidia-persistenced", "nvidia-container-toolkit"} <= set(
        packages
    )
    assert "nvidia-kernel-open-dkms" not in packages
    assert {"linux-headers-cloud-amd64", "linux-headers-6.12.48+deb13-cloud-amd64"} <= set(packages)
    assert rendered["archive"].endswith("/repos/debian13/x86_64")


def test_the_toolkit_is_pinned_and_signed(rendered: dict[str, Any]) -> None:
    files = {Path(file["path"]).name: file["content"] for file in rendered["files"]}
    source = dict(line.split(": ", 1) for line in files["nvidia-container-toolkit.sources"].splitlines())
    assert source["Types"] == "deb"
    assert source["URIs"] == "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
    assert source["Signed-By"] == "/etc/apt/keyrings/nvidia-container-toolkit.asc"
    pin = dict(line.split(": ", 1) for line in files["strata-nvidia-container-toolkit"].splitlines())
    assert pin["Pin"] == "version 1.18.2-1"
    assert set(pin["Package"].split()) <= set(rendered["packages"])
    assert "blacklist nouveau" in files["strata-gpu-node.conf"].splitlines()


@pytest.mark.parametrize("driver", [{}, FACTS["gpu_node_driver"]], ids=["lab", "cards without hardware"])
def test_cards_without_hardware_get_no_driver(tmp_path: Path, driver: dict[str, Any]) -> None:
    devices = tmp_path / "devices"
    (devices / "0000:3b:00.0").mkdir(parents=True)
    (devices / "0000:3b:00.0" / "vendor").write_text("0x10de\n")
    directories = {"gpu_node_pci_directories": [str(devices), str(tmp_path / "none")], "gpu_node_driver": driver}
    output = play_it(tmp_path, {"hosts": "all", "gather_facts": False, "roles": ["gpu_node"]}, directories)
    assert "changed=0" in output
    assert "Load the driver" not in output


INSTANCES = "  MIG 1g.5gb     Device  0: (UUID: MIG-a)\n  MIG 1g.5gb     Device  1: (UUID: MIG-b)\n"
OTHERS = INSTANCES.replace("1g.5gb     Device  1", "2g.10gb    Device  1")


@pytest.mark.parametrize(("listed", "refused"), [(INSTANCES, ""), (OTHERS, "MIG 2g.10gb"), ("", "lists none")])
def test_a_node_that_is_cut_otherwise_is_refused(tmp_path: Path, listed: str, refused: str) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\ncat <<'END'\nGPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-a)\n{listed}END\n")
    command.chmod(0o755)
    role = DIRECTORY / "gpu_node"
    play = {
        **{"hosts": "all", "gather_facts": False, "vars_files": [str(role / "vars" / "main.yml")]},
        "environment": {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        "tasks": [{"ansible.builtin.import_tasks": str(role / "tasks" / "mig.yml")}],
    }
    driver = {"gpu_node_driver": {"mig_profile": "1g.5gb", "mig_instances": 2}}
    done = run_locally(tmp_path / "playbook.yml", "gpu-1", play, driver)
    assert (done.returncode == 0) == (not refused), done.stdout + done.stderr
    assert refused in done.stdout
    assert not refused or "nvidia-mig-parted apply --selected-config all-1g.5gb" in done.stdout
