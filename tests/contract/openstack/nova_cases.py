"""Cases that need nova's own code; test_drivers.py runs them with OpenStack's Python.

Environment: STRATA_DRIVERS, the sources of lab/openstack; STRATA_RENDERED, the rendered configuration;
STRATA_FAKE_PODMAN, a program that records its calls.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tarfile
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
from nova import config, exception, objects  # noqa: E402
from nova.compute import power_state  # noqa: E402
from nova.pci import request, whitelist  # noqa: E402
from nova.virt.lab import configdrive, containers, limits, networks, seed  # noqa: E402
from nova.virt.lab import driver as lab  # noqa: E402
from nova.virt.lab.options import Device  # noqa: E402
from nova.virt.lab.podman import PodmanError  # noqa: E402

CONF = nova.conf.CONF
CARD = "0000:10:00.0"


def setUpModule() -> None:
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
        found = [c for c in self.calls() if tuple(c[: len(start)]) == start]
        assert len(found) == 1, f"{start} in {self.calls()}"
        return found[0]

    def spawn(self, **changes: Any) -> SimpleNamespace:
        made = instance(**changes)
        self.driver.spawn(None, made, SimpleNamespace(name="debian-12"), [], None, None, network_info=[PORT])
        return made


class Spawn(FakePodman):
    """Making an instance."""

    def test_create_names_image_address_and_labels(self) -> None:
        self.spawn()
        create = self.call("create")
        assert create[-1] == "localhost/strata-debian-12:abc"
        assert "strata-lab-abcdef01:ip=10.77.0.5,mac=fa:16:3e:00:00:01" in create
        assert "strata.site=lab" in create
        assert f"strata.devices={CARD}" in create
        assert "--systemd=false" in create
        assert "--cgroupns=private" in create

    def test_client_is_remote(self) -> None:
        self.spawn()
        first = json.loads((self.directory / "calls").read_text().splitlines()[0])
        assert first[:3] == ["--remote", "--url", "unix:///run/strata/podman.sock"]

    def test_network_is_made_once_as_neutron_says(self) -> None:
        self.spawn()
        network = self.call("network", "create")
        assert network[-1] == "strata-lab-abcdef01"
        assert "10.77.0.1" in network
        (self.directory / "networks").write_text("strata-lab-abcdef01\n")
        self.spawn()
        self.call("network", "create")

    def test_network_without_gateway_gets_no_default_route(self) -> None:
        port = json.loads(json.dumps(PORT))
        port["network"]["subnets"][0]["gateway"] = {}
        networks.arguments([port])
        assert "--internal" in self.call("network", "create")

    def test_volumes_carry_the_site(self) -> None:
        made = self.spawn()
        created = [c for c in self.calls() if c[:2] == ["volume", "create"]]
        assert [c[-1] for c in created] == containers.volume_names(made)
        assert all("strata.site=lab" in c for c in created)

    def test_seed_has_exactly_the_claimed_devices(self) -> None:
        self.spawn()
        with tarfile.open(self.directory / "stdin.cp") as archive:
            names = archive.getnames()
            target = f"etc/strata/pci/{archive.getmember(seed.DEVICES).linkname}"
            vendor = archive.extractfile(f"{target}/{CARD}/vendor")
            assert vendor is not None
            assert vendor.read() == b"0x10de\n"
            resolv = archive.extractfile("etc/resolv.conf")
            assert resolv is not None
            assert resolv.read() == b"nameserver 10.77.0.2\n"
        assert [n for n in names if n.startswith(f"{target}/") and n.count("/") == 4] == [f"{target}/{CARD}"]

    def test_nothing_follows_the_end_of_the_seed(self) -> None:
        self.spawn()
        content = (self.directory / "stdin.cp").read_bytes()
        with tarfile.open(self.directory / "stdin.cp") as archive:
            last = archive.getmembers()[-1]
        end = last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        assert content[end:] == bytes(2 * tarfile.BLOCKSIZE), "podman stops reading before the last byte"

    def test_without_cards_the_directory_is_empty(self) -> None:
        self.spawn(get_pci_devices=list)
        with tarfile.open(self.directory / "stdin.cp") as archive:
            target = f"etc/strata/pci/{archive.getmember(seed.DEVICES).linkname}"
            assert [n for n in archive.getnames() if n.startswith(target)] == [target]

    def test_image_without_property_is_named_in_the_fault(self) -> None:
        with self.assertRaises(exception.InstanceDeployFailure) as caught:  # noqa: PT027  # OpenStack's environment has no pytest
            self.spawn(system_metadata={})
        assert "strata_image" in str(caught.exception)
        assert [c for c in self.calls() if c[0] == "create"] == []

    def test_refusal_of_podman_is_the_fault_and_leaves_nothing(self) -> None:
        (self.directory / "fail.create").write_text("Error: no space left on device\n")
        with self.assertRaises(exception.InstanceDeployFailure) as caught:  # noqa: PT027  # OpenStack's environment has no pytest
            self.spawn()
        assert "no space left" in str(caught.exception)
        after = [c[:2] for c in self.calls()[self.calls().index(self.call("create")) + 1 :]]
        assert ["rm", "--force"] in after


class Life(FakePodman):
    """States, power and removal."""

    def test_states(self) -> None:
        for said, expected in {"running": power_state.RUNNING, "exited": power_state.SHUTDOWN}.items():
            (self.directory / "status").write_text(said)
            assert self.driver.get_info(instance()).state == expected

    def test_missing_container_is_not_found(self) -> None:
        (self.directory / "fail.container").write_text("Error: no such container\n")
        with self.assertRaises(exception.InstanceNotFound):  # noqa: PT027  # OpenStack's environment has no pytest
            self.driver.get_info(instance())

    def test_other_errors_are_not_taken_for_missing(self) -> None:
        (self.directory / "fail.container").write_text("Error: cannot connect\n")
        with self.assertRaises(PodmanError):  # noqa: PT027  # OpenStack's environment has no pytest
            self.driver.get_info(instance())

    def test_host_boot_starts_what_was_stopped(self) -> None:
        (self.directory / "status").write_text("exited")
        self.driver.resume_state_on_host_boot(None, instance(), [], None)
        self.call("start")

    def test_host_boot_leaves_what_runs(self) -> None:
        (self.directory / "status").write_text("running")
        self.driver.resume_state_on_host_boot(None, instance(), [], None)
        assert [c for c in self.calls() if c[0] == "start"] == []

    def test_destroy_removes_container_volumes_and_unused_network(self) -> None:
        (self.directory / "networks").write_text("strata-lab-abcdef01\nstrata-lab-used0000\n")
        (self.directory / "containers").write_text(json.dumps([{"Networks": ["strata-lab-used0000"]}]))
        (self.directory / "volumes").write_text("\n".join(containers.volume_names(instance())))
        self.driver.destroy(None, instance(), [PORT])
        assert self.call("network", "rm")[-1] == "strata-lab-abcdef01"
        removed = [c[-1] for c in self.calls() if c[:2] == ["volume", "rm"]]
        assert removed == containers.volume_names(instance())

    def test_reverted_resize_keeps_what_was_set_aside(self) -> None:
        self.driver.destroy(None, instance(task_state="resize_reverting"), [PORT])
        assert self.call("rm")[-1] == containers.container_name(instance())
        assert [c for c in self.calls() if c[:2] == ["volume", "rm"]] == []


class Limits(FakePodman):
    """The flavor's CPUs and memory."""

    def test_memory_is_the_flavors_without_swap(self) -> None:
        self.spawn()
        create = self.call("create")
        assert create[create.index("--memory") + 1] == "4096m"
        assert create[create.index("--memory-swap") + 1] == "4096m"

    def test_least_used_cpus_are_chosen(self) -> None:
        assert limits.least_used(2, range(4), [[0, 1], [0], [2]]) == [1, 3]

    def test_no_more_cpus_than_the_machine_has(self) -> None:
        assert limits.least_used(8, range(2), []) == [0, 1]

    def test_others_on_the_machine_count(self) -> None:
        labels = [{"Labels": {"strata.cpus": text}} for text in ("0,1", "0,3")]
        (self.directory / "containers").write_text(json.dumps(labels))
        with unittest.mock.patch("os.sched_getaffinity", return_value={0, 1, 2, 3}):
            self.spawn(flavor=SimpleNamespace(vcpus=2, memory_mb=512, root_gb=5))
        create = self.call("create")
        assert create[create.index("--cpuset-cpus") + 1] == "1,2"
        assert "strata.cpus=1,2" in create


class Resize(FakePodman):
    """Resizing, its confirmation and its revert."""

    def test_container_is_set_aside_and_its_root_goes_on(self) -> None:
        flavor = SimpleNamespace(vcpus=8, memory_mb=8192, root_gb=20)
        self.driver.migrate_disk_and_power_off(None, instance(), "192.0.2.1", flavor, [PORT])
        name = containers.container_name(instance())
        assert self.call("rename")[1:] == [name, f"{name}-before"]
        resized = instance(flavor=flavor)
        self.driver.finish_migration(
            None, SimpleNamespace(id=7), resized, "", [PORT], SimpleNamespace(name="debian-12"), True, {}
        )
        assert self.call("commit")[-2:] == [f"{name}-before", f"{containers.image_name(resized)}:7"]
        create = self.call("create")
        assert create[-1] == f"{containers.image_name(resized)}:7"
        assert create[create.index("--memory") + 1] == "8192m"
        with tarfile.open(self.directory / "stdin.cp") as archive:
            # the administrator's names stay
            assert "etc/hosts" not in archive.getnames()
        self.call("start")

    def test_smaller_disk_is_refused_before_anything_stops(self) -> None:
        flavor = SimpleNamespace(vcpus=8, memory_mb=8192, root_gb=10)
        with self.assertRaises(exception.InstanceFaultRollback) as caught:  # noqa: PT027  # OpenStack's environment has no pytest
            self.driver.migrate_disk_and_power_off(None, instance(), "192.0.2.1", flavor, [PORT])
        assert "20 GiB" in str(caught.exception.inner_exception)
        assert self.calls() == []

    def test_failed_resize_gives_the_old_container_its_name(self) -> None:
        (self.directory / "fail.commit").write_text("Error: no space left on device\n")
        (self.directory / "status").write_text("exited")
        with self.assertRaises(exception.ResizeError) as caught:  # noqa: PT027  # OpenStack's environment has no pytest
            self.driver.finish_migration(None, SimpleNamespace(id=7), instance(), "", [PORT], None, True, {})
        assert "no space left" in str(caught.exception)
        name = containers.container_name(instance())
        assert self.call("rename")[1:] == [f"{name}-before", name]

    def test_confirmation_removes_the_old_container_only(self) -> None:
        self.driver.confirm_migration(None, SimpleNamespace(id=7), instance(), [PORT])
        assert self.call("rm")[-1] == f"{containers.container_name(instance())}-before"
        assert [c for c in self.calls() if c[0] == "volume"] == []

    def test_set_aside_is_no_instance(self) -> None:
        name = containers.container_name(instance())
        labels = {"strata.instance": instance().uuid, "strata.instance_name": "instance-00000001"}
        listed = [{"Names": [n], "Labels": labels} for n in (name, f"{name}-before")]
        (self.directory / "containers").write_text(json.dumps(listed))
        assert self.driver.list_instance_uuids() == [instance().uuid]


class Rescue(FakePodman):
    """A fresh system in the instance's place."""

    def rescue(self) -> None:
        layers = {"LowerDir": "/l", "UpperDir": "/u", "WorkDir": "/w"}
        (self.directory / "status").write_text(json.dumps(layers))
        image = SimpleNamespace(name="debian-12", obj_attr_is_set=lambda _name: False)
        self.driver.rescue(None, instance(), [PORT], image, None, {}, None)

    def test_root_is_mounted(self) -> None:
        self.rescue()
        volume = f"{containers.container_name(instance())}-rescue"
        made = next(c for c in self.calls() if c[:2] == ["volume", "create"] and c[-1] == volume)
        assert "o=lowerdir=/l,upperdir=/u,workdir=/w" in made
        assert f"{volume}:/mnt:exec,dev,suid" in self.call("create")
        self.call("start")

    def test_refusal_brings_the_instance_back(self) -> None:
        (self.directory / "fail.create").write_text("Error: no space left on device\n")
        with self.assertRaises(exception.InstanceNotRescuable):  # noqa: PT027  # OpenStack's environment has no pytest
            self.rescue()
        name = containers.container_name(instance())
        assert [c[1:] for c in self.calls() if c[0] == "rename"] == [[name, f"{name}-before"], [f"{name}-before", name]]


class ConfigDrive(unittest.TestCase):
    """What cloud-init reads, made by nova's own code."""

    def files(self, **changes: Any) -> dict[str, bytes]:
        keypair = objects.KeyPair(name="ada", public_key="ssh-ed25519 AAAA key", type="ssh")
        values: dict[str, Any] = {
            "uuid": "11111111-2222-3333-4444-555555555555",
            "hostname": "worker-1",
            "display_name": "worker-1",
            "key_name": "ada",
            "key_data": keypair.public_key,
            "keypairs": objects.KeyPairList(objects=[keypair]),
            "user_data": base64.b64encode(b"#cloud-config\n{}\n").decode(),
            "config_drive": "True",
            "project_id": "project",
            "launch_index": 0,
            "availability_zone": "nova",
            "metadata": {},
            "system_metadata": {},
            "device_metadata": None,
            "numa_topology": None,
            "ec2_ids": objects.EC2Ids(instance_id="i-1", ami_id="ami-1", kernel_id=None, ramdisk_id=None),
            "image_ref": "",
            "host": "compute-1",
            "launched_at": None,
            "reservation_id": "r-1",
            "flavor": objects.Flavor(name="cpu.small"),
        }
        made = objects.Instance(**values | changes)
        with (
            unittest.mock.patch("nova.network.security_group_api.get_instance_security_groups", return_value=[]),
            unittest.mock.patch("nova.api.metadata.base._format_instance_mapping", return_value={}),
        ):
            found: dict[str, bytes] = configdrive.files(made, [], {})
        return found

    def test_names_keys_and_user_data(self) -> None:
        files = self.files()
        metadata = json.loads(files["openstack/latest/meta_data.json"])
        assert metadata["hostname"].startswith("worker-1")
        assert metadata["public_keys"] == {"ada": "ssh-ed25519 AAAA key"}
        assert files["openstack/latest/user_data"] == b"#cloud-config\n{}\n"
        assert "openstack/latest/network_data.json" in files

    def test_an_instance_that_was_built_without_one_gets_none(self) -> None:
        import datetime

        launched = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        assert self.files(config_drive="", launched_at=launched, image_ref="") == {}


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
        found = request.get_alias_from_config()
        assert set(found) == {"v100"}
        _, specs = found["v100"]
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
        import inspect

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
        import importlib.metadata

        entries = importlib.metadata.entry_points(group="neutron.ml2.mechanism_drivers")
        assert entries["lab"].value == "strata_openstack_lab.mechanism:LabMechanismDriver"


if __name__ == "__main__":
    unittest.main()
