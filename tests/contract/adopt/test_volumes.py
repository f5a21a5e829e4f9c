"""Volumes with the real Pulumi engine and OpenStack provider, against a small OpenStack with cinder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from strata.site.outputs import CloudOutputs
from strata.site_file.inventories import find_site
from strata.stacks.pulumi import stack_settings_file

from .conftest import SITE, Place
from .small_cloud import DISKLESS, SmallCloud, serve

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("adopt-contract")]
DATABASES = {"name": "databases", "size": "10 GiB", "volume_type": "ssd", "mount_path": "/var/lib/postgresql"}
EXPORTS = {"name": "exports", "size": "20 GiB", "mount_path": "/srv/nfs"}


class Storage(Place):
    """A site with two instances: the bastion, which boots from a volume, and the one that has volumes."""

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the instance with volumes in the site file."""
        content = yaml.safe_load(self.file.read_text())
        change(content["cloud"]["instances"][1])
        self.file.write_text(yaml.safe_dump(content))

    def write_files(self) -> None:
        """Writes the site file and clouds.yaml."""
        super().write_files()
        content = yaml.safe_load(find_site("campus").read_text()) | {"name": SITE}
        del content["cluster"], content["platform"]
        instances = content["cloud"]["instances"][:2]
        # nova starts it from a volume only
        content["cloud"]["flavors"].append({**content["cloud"]["flavors"][0], "name": DISKLESS, "disk": "0 GiB"})
        instances[0] |= {"flavor": DISKLESS, "boot_volume": {"size": "12 GiB", "volume_type": "ssd"}}
        instances[1] |= {"roles": ["nfs_server"], "volumes": [DATABASES, EXPORTS]}
        content["cloud"]["instances"] = instances
        self.file.write_text(yaml.safe_dump(content))

    @property
    def server(self) -> str:
        """Id of the instance with volumes."""
        return str(self.cloud.server("storage-1")["id"])

    def attached(self) -> dict[str, str]:
        """Name to id of the volumes of its instance."""
        volumes = self.cloud.cinder.volumes
        return {volumes[identifier]["name"]: identifier for identifier in self.cloud.cinder.of_server(self.server)}

    def outputs(self) -> CloudOutputs:
        """What the hosts layer gets."""
        file = self.directory / "state" / SITE / "outputs" / CloudOutputs.file_name
        return CloudOutputs.model_validate_json(file.read_text())


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """The site after `up`."""
    try:
        with serve(SmallCloud("campus")) as cloud:
            place = Storage(tmp_path_factory.mktemp("volumes"), cloud)
            place.write_files()
            place.json("up", "--layer", "cloud")
            yield place
    finally:
        stack_settings_file("cloud", SITE).unlink(missing_ok=True)


def test_volumes_are_created_and_attached_once(storage: Storage) -> None:
    assert storage.attached().keys() == {"databases", "exports"}
    databases = storage.cloud.cinder.named("databases")
    assert (databases["size"], databases["volume_type"]) == (10, "ssd")
    assert databases["description"] == f"{SITE}: /var/lib/postgresql of storage-1"
    assert storage.outputs().instances["storage-1"].volumes == storage.attached()
    (root,) = storage.cloud.cinder.of_server(storage.cloud.server("edge-1")["id"])
    assert storage.cloud.cinder.volumes[root]["size"] == 12
    written = len(storage.cloud.writes)
    assert storage.json("up", "--layer", "cloud")["changed"] == 0
    assert storage.refresh() == set()
    assert len(storage.cloud.writes) == written


def test_a_volume_grows_in_place(storage: Storage) -> None:
    before = storage.attached()
    storage.edit(lambda instance: instance["volumes"][0].update(size="15 GiB"))
    assert storage.json("up", "--layer", "cloud")["changed"] == 1
    assert storage.cloud.cinder.named("databases")["size"] == 15
    assert storage.attached() == before


def test_a_replaced_instance_gets_its_volumes_back(storage: Storage) -> None:
    """It is shut down before it is deleted: a volume that is unplugged from a running one loses unwritten data."""
    before, server, begin = storage.attached(), storage.server, len(storage.cloud.writes)
    storage.edit(lambda instance: instance.update(server_group="control"))
    refused = storage.strata("up", "--layer", "cloud")
    assert refused.returncode == 4, refused.stderr
    storage.json("up", "--layer", "cloud", "--replace", "storage-1")
    assert storage.server != server
    assert storage.attached() == before
    writes = [w for w in storage.cloud.writes[begin:] if server in w]
    assert writes[0] == f"POST /compute/v2.1/servers/{server}/action"
    assert writes[-1] == f"DELETE /compute/v2.1/servers/{server}"
    assert storage.cloud.stopped == [server]
    assert storage.json("up", "--layer", "cloud")["changed"] == 0


def test_volumes_of_a_lost_state_are_adopted(storage: Storage) -> None:
    """Otherwise `up` would create a second one beside each."""
    before, begin = storage.attached(), len(storage.cloud.writes)
    state = storage.directory / "state" / SITE
    lost = state.rename(state.with_name("lost"))
    state.mkdir(mode=0o700)
    for name in ("ssh_key", "ssh_key.pub"):
        (state / name).write_bytes((lost / name).read_bytes())
        (state / name).chmod(0o600)
    stack_settings_file("cloud", SITE).unlink()
    refused = storage.strata("up", "--layer", "cloud")
    assert refused.returncode != 0
    adopted = storage.json("adopt", "--yes")
    assert adopted["missing"] == []
    assert [row for row in adopted["objects"] if row["differs"]] == []
    keys = {row["key"] for row in adopted["objects"]}
    assert {f"{kind}/{name}" for kind in ("volume", "volume-attachment") for name in before} <= keys
    assert storage.json("up", "--layer", "cloud")["changed"] == 0
    assert storage.attached() == before
    assert len(storage.cloud.writes) == begin


def test_a_volume_stays_until_its_removal_is_named(storage: Storage) -> None:
    """Also when the whole site is destroyed."""
    storage.edit(lambda instance: instance["volumes"].pop())
    refused = storage.strata("up", "--layer", "cloud")
    assert refused.returncode != 0
    assert "volume/exports: the volume is deleted with all its files" in refused.stderr, refused.stderr
    assert "--remove volume/exports" in refused.stderr
    destroyed = storage.strata("destroy", "--yes")
    assert "--remove volume/databases --remove volume/exports" in destroyed.stderr, destroyed.stderr
    assert len(storage.attached()) == 2
    storage.json("up", "--layer", "cloud", "--remove", "volume/exports")
    assert storage.attached().keys() == {"databases"}
    assert "exports" not in {volume["name"] for volume in storage.cloud.cinder.volumes.values()}


def test_a_smaller_size_is_refused(storage: Storage) -> None:
    storage.edit(lambda instance: instance["volumes"][0].update(size="5 GiB"))
    refused = storage.strata("up", "--layer", "cloud")
    assert refused.returncode != 0
    assert (
        "cloud.instances[1].volumes[0].size: '5 GiB' — the volume has 15 GiB, and volumes do not shrink"
        in refused.stderr
    )
    assert storage.cloud.cinder.named("databases")["size"] == 15
