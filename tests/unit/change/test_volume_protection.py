"""Volumes do not leave a site unnamed; the host gets what the cloud has attached."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from strata.errors import UserError
from strata.inventory.role_variables import role_variables
from strata.models.site import Site
from strata.plan import plan, render
from strata.site.data_protection import (
    ProtectedLoss,
    ProtectedResources,
    authorize_removal,
    losses,
    require_named_volumes,
)
from strata.site.host_list import conditions
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import SitePaths
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

EXPORTS = {"name": "exports", "size": "2 TiB", "mount_path": "/srv/nfs"}
HOMES = {"name": "homes", "size": "100 GiB", "volume_type": "ssd", "mount_path": "/srv/nfs/home"}
CAMPUS = yaml.safe_load(find_site("campus").read_text())
Volumes = dict[str, list[dict[str, str]]]


@pytest.fixture
def campus(tmp_path: Path) -> Callable[[Volumes], Site]:
    """Campus with volumes of its instances."""

    def load(volumes: Volumes) -> Site:
        content: dict[str, Any] = copy.deepcopy(CAMPUS)
        for instance in content["cloud"]["instances"]:
            instance["volumes"] = volumes.get(instance["name"], [])
        file = tmp_path / "site.yaml"
        file.write_text(yaml.safe_dump(content))
        return load_site(file)

    return load


@pytest.fixture
def paths(state_directory: Path, campus: Callable[[Volumes], Site]) -> SitePaths:
    """Of campus with two volumes of storage-1, after its first `up`."""
    site_paths = SitePaths("campus").create()
    authorize_removal(campus({"storage-1": [EXPORTS, HOMES]}), site_paths, ("cloud",), ()).save(site_paths)
    return site_paths


def test_a_volume_leaves_only_when_it_is_named(campus: Callable[[Volumes], Site], paths: SitePaths) -> None:
    site = campus({"storage-1": [EXPORTS]})
    with pytest.raises(ProtectedLoss, match="volume/homes: the volume is deleted with all its files") as refused:
        authorize_removal(site, paths, ("cloud",), ())
    assert "--remove volume/homes" in (refused.value.fix or "")
    authorize_removal(site, paths, ("cloud",), ("volume/homes",)).save(paths)
    assert ProtectedResources.of(paths).leaving("volume") == ("homes",)
    assert losses(ProtectedResources.of(paths).settled(["cloud"]), site) == []


def test_a_volume_that_moves_or_grows_is_not_a_loss(campus: Callable[[Volumes], Site], paths: SitePaths) -> None:
    moved = campus({"worker-1": [HOMES | {"size": "200 GiB", "mount_path": "/home"}], "storage-1": [EXPORTS]})
    assert authorize_removal(moved, paths, ("cloud",), ()).removing == ()


def test_destroy_names_every_volume(campus: Callable[[Volumes], Site], paths: SitePaths) -> None:
    """Also one that the site file no longer has, and the cloud still does."""
    site = campus({"storage-1": [EXPORTS]})
    with pytest.raises(ProtectedLoss, match="volume/exports, volume/homes would be deleted") as refused:
        require_named_volumes(site, paths, ())
    assert "strata destroy campus --remove volume/exports --remove volume/homes" in (refused.value.fix or "")
    with pytest.raises(ProtectedLoss, match="campus: volume/homes would"):
        require_named_volumes(site, paths, ("exports",))
    with pytest.raises(UserError, match=r"--remove other: the site has no such volume; it has volume/exports"):
        require_named_volumes(site, paths, ("other",))
    require_named_volumes(site, paths, ("volume/exports", "homes"))


def test_the_host_mounts_what_is_attached(campus: Callable[[Volumes], Site]) -> None:
    """Directories before those below them; the id is empty until the cloud layer has attached the volume."""
    site = campus({"storage-1": [HOMES, EXPORTS]})
    storage = InstanceOutput(
        id="server", name="storage-1", address="10.79.0.5", flavor="f", roles=(), volumes={"exports": "volume-1"}
    )
    outputs = CloudOutputs(instances={"storage-1": storage}, networks={})
    assert role_variables("volumes", site, outputs)["volumes_of_hosts"] == {
        "storage-1": [
            {"name": "exports", "id": "volume-1", "mount_path": "/srv/nfs", "project_quotas": False},
            {"name": "homes", "id": "", "mount_path": "/srv/nfs/home", "project_quotas": False},
        ]
    }
    assert "volumes" in conditions(site)
    assert "volumes" not in conditions(campus({}))


def test_the_plan_lists_volumes(campus: Callable[[Volumes], Site]) -> None:
    site = campus({"storage-1": [EXPORTS, HOMES]})
    stream = io.StringIO()
    render(plan(site), Console(file=stream, width=200), ("cloud",))
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert ["exports", "2", "TiB", "default", "storage-1", "/srv/nfs"] in lines
    assert ["homes", "100", "GiB", "ssd", "storage-1", "/srv/nfs/home"] in lines
