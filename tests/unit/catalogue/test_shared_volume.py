"""Volumes on the NFS server: what services and tenants get, and what the server exports for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.needs import Database, SharedVolume
from strata.catalogue.site_services import needed
from strata.catalogue.site_volumes import volumes
from strata.inventory.role_variables import role_variables
from strata.models.site import Site
from strata.platform.releases import releases, service_context
from strata.site.data_protection import data_of
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

from ..platform.test_values import SITES, check, outputs, state_of

SCRATCH = SharedVolume("scratch", owner=1000, group=100, size="20Gi")


def give(monkeypatch: pytest.MonkeyPatch, site: Site, need: SharedVolume) -> Any:
    """One service of the site needs a volume too."""
    chosen, *_ = [service for service, _ in needed(site, Database)]
    other = replace(chosen, needs=lambda settings: (*chosen.needs(settings), need))
    table = tuple(other if service is chosen else service for service in services())
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: table)
    return other


def test_a_service_gets_a_claim_and_the_server_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(SITES["lab"])
    service = give(monkeypatch, state.site, SCRATCH)
    assert service_context(service, state).provide(SCRATCH) == "scratch"
    release = next(r for r in releases(state.site) if r.name == "shared-volumes")
    assert release.name in next(r for r in releases(state.site) if r.name == service.name).after
    values = release.values(state)
    check(release.chart, values)
    assert values["server"] == "nfs.lab.strata.test"
    volume = {"name": "strata-system-scratch", "claim": "scratch", "namespace": "strata-system", "path": "/scratch"}
    assert {**volume, "size": "20Gi", "readOnly": False} in values["volumes"]
    variables = role_variables("nfs_server", state.site, outputs(state.site))
    exports: Any = variables["nfs_server_exports"]
    export = next(e for e in exports if e["name"] == "scratch")
    nodes = next(e for e in exports if e["name"] == "data")["clients"]
    assert export == {
        "name": "scratch",
        "id": 35911,
        "path": "/srv/nfs/volumes/scratch",
        "clients": nodes,
        "squash_root": True,
        "owner": 1000,
        "group": 100,
        "mode": "0770",
        "size": "20G",
    }


def test_volumes_are_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    site = load_site(find_site("lab"))
    give(monkeypatch, site, SCRATCH)
    assert ("export", "scratch", "/srv/nfs/volumes/scratch") in {(k.kind, k.name, k.detail) for k in data_of(site)}


def test_each_tenant_has_a_claim_for_its_folder() -> None:
    site = load_site(find_site("lab"))
    name = site.platform.tenants[0].name
    (volume,) = (volume for volume in volumes(site) if volume.namespace == name and volume.claim == "tenants")
    assert (volume.claim, volume.namespace, volume.path) == ("tenants", "research", "/tenants/research")
    assert volume.name == "research-tenants"


def test_a_service_shares_folders_with_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's namespace has its folder alone, which the server makes with the volume's owner and group."""
    state = state_of(SITES["lab"])
    need = replace(SCRATCH, tenants=True, removal_folder=".removed")
    give(monkeypatch, state.site, need)
    shared = [volume for volume in volumes(state.site) if volume.claim == "scratch"]
    assert {(volume.namespace, volume.path) for volume in shared} == {
        ("strata-system", "/scratch"),
        *((tenant.name, f"/scratch/{tenant.name}") for tenant in state.site.platform.tenants),
    }
    assert {(volume.owner, volume.group, volume.read_only) for volume in shared} == {(1000, 100, False)}
    exports: Any = role_variables("nfs_server", state.site, outputs(state.site))["nfs_server_exports"]
    export = next(e for e in exports if e["name"] == "scratch")
    names = [tenant.name for tenant in state.site.platform.tenants]
    assert export["folders"] == [{"name": name, "group_id": 100, "owner": 1000} for name in names]
    assert export["removal_folder"] == ".removed"


def test_claims_follow_the_namespaces_of_tenants() -> None:
    table = releases(load_site(find_site("lab")))
    release = next(r for r in table if r.name == "shared-volumes")
    assert "tenant-research" in release.after
    names = [r.name for r in table]
    assert all(names.index(before) < names.index(release.name) for before in release.after)


@pytest.mark.parametrize("need", [replace(SCRATCH, name="data"), SCRATCH], ids=["name", "path"])
def test_a_volume_with_the_name_or_path_of_an_export_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, need: SharedVolume
) -> None:
    for file in SITES["lab"].parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    site = tmp_path / "site.yaml"
    site.write_text(site.read_text().replace("path: /srv/nfs/data", "path: /srv/nfs/volumes/scratch"))
    give(monkeypatch, load_site(site), need)
    with pytest.raises(SiteError, match="duplicate"):
        load_site(site)


def test_a_volume_needs_an_nfs_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file in SITES["lab"].parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    site = tmp_path / "site.yaml"
    lines = site.read_text().replace("nfs_server, ", "").splitlines()
    site.write_text("\n".join(line for line in lines if not line.startswith("  nfs:")).replace("hosts:\n\n", "\n"))
    give(monkeypatch, load_site(SITES["lab"]), SCRATCH)
    with pytest.raises(SiteError, match=r"nfs_server \(for its volume homes\)"):
        load_site(site)


def test_limits_of_folders_reach_the_server_and_its_volume() -> None:
    """The volume that has the export, and no other, gets quotas."""
    site = load_site(SITES["cnaf"])
    assert site.cloud is not None
    storage = next(instance for instance in site.cloud.instances if "nfs_server" in instance.roles)
    exports: Any = role_variables("nfs_server", site, None)["nfs_server_exports"]
    assert {e["name"]: e["folder_limit"] for e in exports if "folder_limit" in e} == {"homes": 50 * 2**20}
    for path, limited in (("/srv/nfs/volumes", True), ("/srv", True), ("/srv/nfs/volumes2", False)):
        volume = storage.volumes[0].model_copy(update={"mount_path": Path(path)})
        instances = (storage.model_copy(update={"volumes": (volume,)}),)
        other = site.model_copy(update={"cloud": site.cloud.model_copy(update={"instances": instances})})
        by_host: Any = role_variables("volumes", other, None)["volumes_of_hosts"]
        assert [volume["project_quotas"] for volume in by_host[storage.name]] == [limited]
