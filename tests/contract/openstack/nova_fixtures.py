"""What the cases share that need nova's own code; nova_cases.py loads it before nova.

Environment: STRATA_DRIVERS, the sources of lab/openstack; STRATA_RENDERED, the rendered configuration;
STRATA_FAKE_PODMAN, a program that records its calls.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SOURCES = Path(os.environ["STRATA_DRIVERS"]) / "src"
RENDERED = Path(os.environ["STRATA_RENDERED"])
FAKE = os.environ["STRATA_FAKE_PODMAN"]

import nova.virt  # noqa: E402

# the working tree's driver, not the one that was installed last
_packages = tempfile.mkdtemp()
Path(_packages, "lab").symlink_to(SOURCES / "nova_virt_lab")
nova.virt.__path__.insert(0, _packages)
sys.path.insert(0, str(SOURCES))

import nova.conf  # noqa: E402
from nova import config, objects  # noqa: E402
from nova.virt.lab import configdrive  # noqa: E402
from nova.virt.lab import driver as lab  # noqa: E402

CONF = nova.conf.CONF
CARD = "0000:10:00.0"


def load_configuration() -> None:
    """Loads the configuration of the GPU hypervisor as nova-compute does."""
    files = [RENDERED / "etc/nova/nova.conf", RENDERED / "etc/nova/compute-compute-gpu-1.conf"]
    config.parse_args(["nova-compute", *(part for f in files for part in ("--config-file", str(f)))])
    objects.register_all()
    CONF.set_override("podman", FAKE, "lab")
    CONF.set_override("lock_path", tempfile.mkdtemp(), "oslo_concurrency")
    CONF.set_override("state_path", tempfile.mkdtemp())


def instance(**changes: Any) -> SimpleNamespace:
    """What the driver reads of a nova instance."""
    values: dict[str, Any] = {
        "uuid": "11111111-2222-3333-4444-555555555555",
        "name": "instance-00000001",
        "hostname": "gpu-worker-1",
        "display_name": "gpu-worker-1",
        "task_state": None,
        "system_metadata": {"image_strata_image": "localhost/strata-debian-12:abc"},
        "flavor": SimpleNamespace(vcpus=4, memory_mb=4096, root_gb=20),
        "get_pci_devices": lambda: [SimpleNamespace(address=CARD)],
    }
    return SimpleNamespace(**values | changes)


PORT = {
    "id": "port",
    "address": "fa:16:3e:00:00:01",
    "network": {
        "id": "abcdef01-0000-0000-0000-000000000000",
        "subnets": [
            {
                "version": 4,
                "cidr": "10.77.0.0/24",
                "gateway": {"address": "10.77.0.1"},
                "dns": [{"address": "10.77.0.2"}],
                "ips": [{"address": "10.77.0.5"}],
            }
        ],
    },
}


class FakePodman(unittest.TestCase):
    """Base: a fresh fake whose calls can be read."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        os.environ["FAKE_PODMAN_DIRECTORY"] = str(self.directory)
        self.driver = lab.PodmanDriver(virtapi=None)
        drive = {"openstack/latest/meta_data.json": b"{}"}
        patch = unittest.mock.patch.object(configdrive, "files", return_value=drive)
        patch.start()
        self.addCleanup(patch.stop)

    def calls(self) -> list[list[str]]:
        file = self.directory / "calls"
        return [json.loads(line)[3:] for line in file.read_text().splitlines()] if file.exists() else []

    def call(self, *start: str) -> list[str]:
        calls = [c for c in self.calls() if tuple(c[: len(start)]) == start]
        assert len(calls) == 1, f"{start} in {self.calls()}"
        return calls[0]

    def spawn(self, **changes: Any) -> SimpleNamespace:
        made = instance(**changes)
        self.driver.spawn(None, made, SimpleNamespace(name="debian-12"), [], None, None, network_info=[PORT])
        return made
