"""What the lab's drivers report to nova and neutron: PCI devices, capacity, bound ports."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

from nova.pci import request, whitelist
from nova.virt.lab import driver as lab
from nova.virt.lab.options import Device

from .nova_fixtures import CONF, FakePodman


class Resources(FakePodman):
    """What the hypervisor reports."""

    def test_devices_match_nova_filters(self) -> None:
        resources = self.driver.get_available_resource("compute-gpu-1")
        devices = json.loads(resources["pci_passthrough_devices"])
        assert [d["address"] for d in devices] == ["0000:10:00.0", "0000:18:00.0"]
        spec = whitelist.Whitelist(CONF.pci.device_spec)
        for device in devices:
            assert spec.device_assignable(device)
        assert not spec.device_assignable(devices[0] | {"product_id": "1eb8"})

    def test_alias_of_flavors_is_known(self) -> None:
        aliases = request.get_alias_from_config()
        assert set(aliases) == {"v100"}
        _, specs = aliases["v100"]
        assert (specs[0]["vendor_id"], specs[0]["product_id"], specs[0]["dev_type"]) == ("10de", "1db4", "type-PCI")

    def test_used_counts_labels(self) -> None:
        labels = {"strata.vcpus": "4", "strata.memory_mb": "4096", "strata.disk_gb": "20"}
        (self.directory / "containers").write_text(json.dumps([{"Labels": labels}, {"Labels": labels}]))
        resources = self.driver.get_available_resource("compute-gpu-1")
        assert (resources["vcpus"], resources["vcpus_used"]) == (32, 8)
        assert (resources["memory_mb"], resources["memory_mb_used"]) == (65536, 8192)

    def test_device_with_a_missing_field_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "six fields"):  # noqa: PT027  # OpenStack's environment has no pytest
            Device.parse("0000:10:00.0,10de,1db4")

    def test_interface_is_novas(self) -> None:
        from nova.virt import driver

        for name, method in inspect.getmembers(lab.PodmanDriver, inspect.isfunction):
            base = getattr(driver.ComputeDriver, name, None)
            if base is not None and not name.startswith("__"):
                ours, theirs = (list(inspect.signature(f).parameters) for f in (method, base))
                assert ours == theirs, name


class Mechanism(unittest.TestCase):
    """neutron's side."""

    def test_binds_the_first_segment_as_active(self) -> None:
        from strata_openstack_lab.mechanism import LabMechanismDriver

        bound: list[Any] = []
        context = SimpleNamespace(
            segments_to_bind=[{"id": "one"}, {"id": "two"}],
            set_binding=lambda *arguments, **options: bound.append((arguments, options)),
        )
        LabMechanismDriver().bind_port(context)
        ((segment, vif_type, _), options) = bound[0]
        assert (segment, vif_type, options) == ("one", "other", {"status": "ACTIVE"})
        assert len(bound) == 1

    def test_policies_are_there_before_the_first_request(self) -> None:
        """neutron reads them at the first one, and refuses others meanwhile."""
        from neutron import policy
        from neutron.common import config as neutron_config  # noqa: F401  # registers what policies are read with
        from strata_openstack_lab import mechanism

        policy.reset()
        mechanism.prepare()
        assert "create_network:router:external" in policy._ENFORCER.rules

    def test_neutron_finds_it(self) -> None:
        entries = importlib.metadata.entry_points(group="neutron.ml2.mechanism_drivers")
        assert entries["lab"].value == "strata_openstack_lab.mechanism:LabMechanismDriver"
