"""The folder of a tenant in its members' servers: a real JupyterHub's pods, and what the notebook's image does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strata.catalogue.service import Service
from strata.catalogue.site_volumes import volumes
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.module_file import load_module
from strata_services.jupyterhub.needs import VERIFY_USER
from strata_services.jupyterhub.service import SERVICE

from .running_hub import Hub

hub_group = pytest.mark.xdist_group("jupyterhub-hub")


def folder(hub: Hub, user: str) -> tuple[str | None, list[str], list[int]]:
    """Claim, mount paths below /shared, and groups of a user's next server."""
    spec = hub.pod(user)["spec"]
    claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes") or ()}
    mounts = [mount["mountPath"] for mount in spec["containers"][0].get("volumeMounts") or ()]
    return claims.get("shared"), mounts, spec.get("securityContext", {}).get("supplementalGroups", [])


@hub_group
@pytest.mark.parametrize(
    ("user", "tenant", "group"),
    [("bob", "research", 20001), ("carol", "research", 20001), ("eve", "biology", 20003), ("both", "research", 20001)],
)
def test_server_has_the_folder_of_its_tenant_only(running_hub: Hub, user: str, tenant: str, group: int) -> None:
    assert folder(running_hub, user) == (f"tenants-{tenant}", [f"/shared/{tenant}"], [group])


@hub_group
def test_server_without_a_tenant_has_none(running_hub: Hub) -> None:
    assert folder(running_hub, "guest") == (None, [], [])


def test_claims_exist_in_the_hubs_namespace(
    values_of: Callable[[Service[Any], Path], dict[str, Any]], lab_with: Callable[..., Path]
) -> None:
    site_file = lab_with(SERVICE, shared_export="tenants")
    made = {(volume.namespace, volume.claim): (volume.path, volume.group) for volume in volumes(load_site(site_file))}
    custom = values_of(SERVICE, site_file)["custom"]["sharedFolders"]
    assert custom == {
        "folders": {
            "research": {"claim": "tenants-research", "group": 20001},
            "teaching": {"claim": "tenants-teaching", "group": 20002},
        },
        "users": {VERIFY_USER: "research"},
    }
    assert made["jupyterhub", "tenants-research"] == ("/tenants/research", 20001)


def test_export_has_folders_of_tenants(lab_with: Callable[..., Path]) -> None:
    with pytest.raises(SiteError, match="needs the NFS export data with folders of tenants"):
        load_site(lab_with(SERVICE, shared_export="data"))


def test_site_without_the_setting_shares_nothing(
    values_of: Callable[[Service[Any], Path], dict[str, Any]], lab_with: Callable[..., Path]
) -> None:
    site_file = lab_with(SERVICE)
    assert values_of(SERVICE, site_file)["custom"]["sharedFolders"] == {"folders": {}, "users": {}}
    assert ("jupyterhub", "tenants-research") not in {(v.namespace, v.claim) for v in volumes(load_site(site_file))}


@pytest.fixture
def notebook() -> Iterator[ModuleType]:
    """What the extension does with folders; the umask is as before afterwards."""
    file = SERVICE.folder / "images" / "notebook" / "src" / "strata_notebook" / "folders.py"
    module = load_module(file, "strata_notebook_folders")
    before = os.umask(0o077)
    yield module
    os.umask(before)


def test_home_links_to_folders_and_the_group_may_write(notebook: ModuleType, tmp_path: Path) -> None:
    home, shared, missing = tmp_path / "home", tmp_path / "shared", tmp_path / "missing"
    for directory in (home, shared):
        directory.mkdir()
    for _ in range(2):
        notebook.prepare(home, (shared, missing))
    assert {path.name: path.resolve() for path in home.iterdir()} == {"shared": shared}
    (home / "shared" / "new").mkdir()
    assert (shared / "new").stat().st_mode & 0o777 == 0o775


def test_file_of_the_user_is_not_replaced(notebook: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "home" / "shared").write_text("mine")
    notebook.prepare(tmp_path / "home", (tmp_path / "shared",))
    assert (tmp_path / "home" / "shared").read_text() == "mine"
