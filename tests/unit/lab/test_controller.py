"""The controller's bookkeeping, with a podman that only records."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.site import Site
from strata.progress import Silent
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.loader import load_site
from strata_lab import controller, podman_service
from strata_lab.cards import simulated_cards
from strata_lab.filesystems import controller_filesystem
from strata_lab.network import container as network
from strata_lab.openstack_controller import variables


@pytest.fixture
def site() -> Site:
    """The lab as it is committed."""
    return load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    """An empty state directory."""
    return SitePaths("lab").create()


PODMAN = """#!/usr/bin/python3
import json, os, sys
from pathlib import Path
directory = Path(os.environ["FAKE_PODMAN_DIRECTORY"])
arguments = sys.argv[3:]
with (directory / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
objects = json.loads((directory / "objects").read_text())
if arguments[1:2] == ["exists"]:
    sys.exit(0 if arguments[2] in objects[arguments[0]] else 1)
if arguments[:2] == ["ps", "--all"] and any(argument.startswith("name=") for argument in arguments):
    name = arguments[-1].removeprefix("name=^").removesuffix("$")
    print(json.dumps([{"State": objects["status"]}] if name in objects["container"] else []))
elif arguments[:2] == ["ps", "--all"] and "json" in arguments:
    print(json.dumps(objects["ps"]))
elif arguments[:2] == ["ps", "--all"]:
    print("\\n".join(objects["container"]))
elif arguments[1] == "ls":
    print("\\n".join(objects[arguments[0]]))
elif arguments[:2] == ["container", "inspect"]:
    print(objects["image_of"])
elif arguments[0] == "rm":
    objects["container"].remove(arguments[-1])
    (directory / "objects").write_text(json.dumps(objects))
"""


class Fake:
    """The recorded calls and what podman holds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def holds(self, **objects: object) -> None:
        empty: dict[str, object] = {
            "container": [],
            "volume": [],
            "network": [],
            "image": [],
            "ps": [],
            "status": "",
            "image_of": "",
        }
        (self.directory / "objects").write_text(json.dumps(empty | objects))

    @property
    def calls(self) -> list[list[str]]:
        file = self.directory / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """A podman first on PATH."""
    directory = tmp_path / "podman"
    directory.mkdir()
    program = directory / "podman"
    program.write_text(PODMAN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_PODMAN_DIRECTORY", str(directory))
    monkeypatch.setattr("strata_lab.host.restore", lambda _: [])
    # these look at the machine itself, where a lab may run
    monkeypatch.setattr("strata_lab.container_recovery.reconcile", lambda _: [])
    monkeypatch.setattr("strata_lab.container_recovery.LEASES", tmp_path / "leases")
    monkeypatch.setattr(podman_service, "runtime_directory", lambda name: tmp_path / "run" / name)
    return Fake(directory)


def test_clouds_file_is_private_and_stable(site: Site, paths: SitePaths) -> None:
    assert controller.write_clouds_file(site, paths, "secret")
    assert not controller.write_clouds_file(site, paths, "secret")
    assert stat.S_IMODE(paths.clouds_file.stat().st_mode) == 0o600
    cloud = yaml.safe_load(paths.clouds_file.read_text())["clouds"]["lab"]
    assert cloud["auth"]["auth_url"] == "http://10.87.0.10:5000/v3"
    assert cloud["auth"]["password"] == "secret"


def test_up_without_key_shows_what_to_do(site: Site, paths: SitePaths) -> None:
    with pytest.raises(UserError, match=r"ssh_key\.pub"):
        controller.up(site, paths, Silent())


def test_down_stops_the_controller_before_the_instances(site: Site, paths: SitePaths, podman: Fake) -> None:
    podman.holds(container=["strata-lab-controller", "strata-lab-uuid"], status="running")
    assert controller.down(site, paths, Silent())
    stops = [call for call in podman.calls if call[0] == "stop"]
    assert stops[0][-1] == "strata-lab-controller"
    assert "strata-lab-uuid" in stops[1]


def test_destroy_removes_every_kind(site: Site, paths: SitePaths, podman: Fake) -> None:
    podman.holds(
        container=["strata-lab-controller", "strata-lab-uuid"],
        volume=["strata-lab-uuid-kubelet"],
        network=["strata-lab-control", "strata-lab-abcdef01"],
    )
    controller.write_clouds_file(site, paths, "secret")
    assert controller.destroy(site, paths, Silent())
    removed = [call for call in podman.calls if "rm" in call[:2]]
    assert removed[0] == ["rm", "--force", "--time", "0", "--volumes", "strata-lab-controller"]
    assert [call[0] for call in removed[1:]] == ["container", "volume", "network"]
    assert removed[1][-1] == "strata-lab-uuid"
    assert removed[3][-2:] == ["strata-lab-control", "strata-lab-abcdef01"]
    assert not paths.clouds_file.exists()


def test_destroy_of_nothing_changes_nothing(site: Site, paths: SitePaths, podman: Fake) -> None:
    podman.holds()
    assert not controller.destroy(site, paths, Silent())
    assert [call for call in podman.calls if "rm" in call[:2]] == []


def test_status_shows_instances_with_devices(site: Site, paths: SitePaths, podman: Fake) -> None:
    labels = {
        "strata.instance": "uuid",
        "strata.display_name": "gpu-worker-1",
        "strata.hypervisor": "compute-gpu-1",
        "strata.devices": "0000:10:00.0",
    }
    listing = [
        {"Names": ["strata-lab-uuid"], "Labels": labels, "State": "running"},
        # set aside by a resize
        {"Names": ["strata-lab-uuid-before"], "Labels": labels, "State": "exited"},
        {"Names": ["strata-lab-controller"], "Labels": {"strata.role": "controller"}, "State": "running"},
    ]
    podman.holds(container=["strata-lab-controller"], status="running", ps=listing)
    status = controller.status(site, paths)
    assert status.controller == "running"
    assert not status.podman_service
    assert [(i.name, i.devices) for i in status.instances] == [("gpu-worker-1", ("0000:10:00.0",))]


def test_a_reused_process_id_is_not_ours(paths: SitePaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(podman_service, "runtime_directory", lambda name: tmp_path / "run" / name)
    (paths.root / "podman-service.pid").write_text(f"{os.getpid()}\n")
    assert podman_service.running_pid(paths) is None


def test_uv_is_a_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV", raising=False)
    with Path(controller.uv_program()).open("rb") as stream:
        assert stream.read(4) == b"\x7fELF"


def test_devices_are_distinct_and_stable() -> None:
    devices = list(simulated_cards(CATALOGUE, {"v100": 30, "t4": 5}))
    assert len({device.address for device in devices}) == 35
    assert devices[0].option == "0000:10:00.0,10de,1eb8,030200,type-PF,0"
    assert devices[-1].option == "0001:30:00.0,10de,1db4,030200,type-PCI,1"


def test_aliases_cover_what_flavors_ask_for(site: Site) -> None:
    settings = variables(site)
    aliases = settings["openstack_compute_pci_aliases"]
    assert isinstance(aliases, list)
    assert [a["name"] for a in aliases] == ["v100"]
    # an id without quotes would reach nova as a number, which it refuses
    assert all(isinstance(value, str) for alias in aliases for value in alias.values())


def test_the_network_agents_rules_go_with_its_own_image(site: Site, paths: SitePaths, podman: Fake) -> None:
    """The image of newer code may not be there yet when an older site is destroyed."""
    podman.holds(container=["strata-lab-network"], image=["localhost/older"], image_of="localhost/older")
    assert controller.destroy(site, paths, Silent())
    (run,) = [call for call in podman.calls if call[0] == "run"]
    assert "localhost/older" in run
    assert run[-3:] == ["remove", "--site", "lab"]


def test_the_network_agent_starts_on_a_machine_without_networks(
    site: Site, podman: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """podman refuses to mount what is not there; its network plugins have not run yet."""
    monkeypatch.setattr(network, "RESULTS", tmp_path / "cni" / "results")
    podman.holds(container=[], image=[controller_filesystem().reference])
    assert network.up(site, "secret", Silent())
    (create,) = [call for call in podman.calls if call[0] == "create"]
    mounted = [Path(create[i + 1].split(":")[0]) for i, option in enumerate(create) if option == "--volume"]
    assert network.RESULTS in mounted
    assert [directory for directory in mounted if not directory.is_dir()] == []
