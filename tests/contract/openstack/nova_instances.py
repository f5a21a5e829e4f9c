"""Instances of the lab's nova driver: spawned, started, destroyed, limited."""

from __future__ import annotations

import json
import tarfile
import unittest
import unittest.mock
from types import SimpleNamespace

from nova import exception
from nova.compute import power_state
from nova.virt.lab import containers, limits, networks, seed
from nova.virt.lab.podman import PodmanError

from .nova_fixtures import CARD, PORT, FakePodman, instance


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

    def test_network_is_made_once_as_neutron_has_it(self) -> None:
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

    def test_destroy_lists_images_again_where_another_process_removed_one(self) -> None:
        image = f"{containers.image_name(instance())}:7"
        (self.directory / "images").write_text(image)
        (self.directory / "fail-once.images").write_text('Error: locating image with ID "03ea": image not known\n')
        with unittest.mock.patch("oslo_concurrency.processutils.time.sleep"):
            self.driver.destroy(None, instance(), [PORT])
        assert self.call("rmi")[-1] == image

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
