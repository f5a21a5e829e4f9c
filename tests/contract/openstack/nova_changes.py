"""Instances of the lab's nova driver that are resized or rescued, and their config drives."""

from __future__ import annotations

import base64
import datetime
import json
import tarfile
import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

from nova import exception, objects
from nova.virt.lab import configdrive, containers

from .nova_fixtures import PORT, FakePodman, instance


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

    def test_set_aside_is_not_an_instance(self) -> None:
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
            contents: dict[str, bytes] = configdrive.files(made, [], {})
        return contents

    def test_names_keys_and_user_data(self) -> None:
        files = self.files()
        metadata = json.loads(files["openstack/latest/meta_data.json"])
        assert metadata["hostname"].startswith("worker-1")
        assert metadata["public_keys"] == {"ada": "ssh-ed25519 AAAA key"}
        assert files["openstack/latest/user_data"] == b"#cloud-config\n{}\n"
        assert "openstack/latest/network_data.json" in files

    def test_an_instance_that_was_built_without_one_gets_none(self) -> None:
        launched = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        assert self.files(config_drive="", launched_at=launched, image_ref="") == {}
