"""What holds data does not leave a site unnamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.models.site import Site
from strata.site.data_protection import ProtectedLoss, ProtectedResources, authorize_removal, losses
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.loader import load_site

LAB = REPOSITORY / "inventories" / "lab" / "site.yaml"
ALL = ("cloud", "hosts", "cluster", "platform")
Edit = Callable[[dict], None]  # type: ignore[type-arg]  # any YAML


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[Edit], Site]:
    """The lab with another content."""

    def load(edit: Edit) -> Site:
        content = yaml.safe_load(LAB.read_text())
        edit(content)
        file = tmp_path / "site.yaml"
        (tmp_path / "catalogue.json").write_text("[]")
        file.write_text(yaml.safe_dump(content))
        return load_site(file)

    return load


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    """Of a lab that was brought up once."""
    site_paths = SitePaths("lab").create()
    authorize_removal(load_site(LAB), site_paths, ALL, ()).save(site_paths)
    return site_paths


def without_export(content: dict) -> None:  # type: ignore[type-arg]
    content["hosts"]["nfs"]["exports"][0] = {"name": "other", "path": "/srv/nfs/other"}
    del content["platform"]["services"]["jupyterhub"]["datasets"]


def without_database(content: dict) -> None:  # type: ignore[type-arg]
    del content["platform"]["services"]["ml_hub"]


def without_postgresql_on_its_host(content: dict) -> None:  # type: ignore[type-arg]
    instances = content["cloud"]["instances"]
    instances[0]["roles"].remove("postgresql")
    instances[2]["roles"] += ["postgresql", "backup"]


def another_project(content: dict) -> None:  # type: ignore[type-arg]
    content["cloud"]["project"]["name"] = "other"


def without_tenant(content: dict) -> None:  # type: ignore[type-arg]
    del content["platform"]["tenants"][0]
    services = content["platform"]["services"]
    for entry in (*services["jupyterhub"]["profiles"], *services["inference"]["models"]):
        entry.pop("tenants", None)


@pytest.mark.parametrize(
    ("edit", "key", "loss"),
    [
        (without_export, "export/data", "/srv/nfs/data"),
        (without_database, "database/ml_hub", "dropped"),
        (without_postgresql_on_its_host, "host/services-1", "nfs_server, postgresql"),
        (another_project, "project/platform", "every instance"),
        (without_tenant, "tenant/research", "volumes"),
    ],
)
def test_a_loss_is_refused_until_it_is_named(
    edit: Edit, key: str, loss: str, edited: Callable[[Edit], Site], paths: SitePaths
) -> None:
    site = edited(edit)
    before = ProtectedResources.load(paths)
    with pytest.raises(ProtectedLoss) as refused:
        authorize_removal(site, paths, ALL, ())
    assert key in refused.value.message
    assert loss in refused.value.message
    assert f"--remove {key}" in (refused.value.fix or "")
    assert ProtectedResources.load(paths) == before

    ledger = authorize_removal(site, paths, ALL, [key])
    assert [item.key for item in ledger.removing] == [key]
    assert key not in {item.key for item in losses(ledger.settled(ALL), site)}


def test_a_loss_stays_allowed_until_its_layer_has_succeeded(edited: Callable[[Edit], Site], paths: SitePaths) -> None:
    site = edited(without_database)
    authorize_removal(site, paths, ALL, ["ml_hub"]).save(paths)
    authorize_removal(site, paths, ALL, ()).save(paths)  # the same run again, after a failure
    assert ProtectedResources.of(paths).leaving("database") == ("ml_hub",)
    assert ProtectedResources.of(paths).settled(["cloud"]).leaving("database") == ("ml_hub",)
    assert ProtectedResources.of(paths).settled(["hosts"]).leaving("database") == ()


def test_what_came_back_before_it_went_stays(edited: Callable[[Edit], Site], paths: SitePaths) -> None:
    authorize_removal(edited(without_database), paths, ALL, ["database/ml_hub"]).save(paths)
    ledger = authorize_removal(edited(lambda _: None), paths, ALL, ())
    assert ledger.removing == ()
    assert "database/ml_hub" in {item.key for item in ledger.kept}


def test_another_layer_does_not_ask(edited: Callable[[Edit], Site], paths: SitePaths) -> None:
    assert authorize_removal(edited(without_tenant), paths, ["hosts"], ()).removing == ()


def test_a_name_that_does_not_leave_is_an_error(edited: Callable[[Edit], Site], paths: SitePaths) -> None:
    with pytest.raises(UserError, match=r"--remove ml_hub: .* what leaves: tenant/research"):
        authorize_removal(edited(without_tenant), paths, ALL, ["tenant/research", "ml_hub"])


def test_the_last_control_plane_stays_even_if_named(edited: Callable[[Edit], Site], paths: SitePaths) -> None:
    def other_control_plane(content: dict) -> None:  # type: ignore[type-arg]
        content["cloud"]["instances"][1]["name"] = "control-2"

    with pytest.raises(ProtectedLoss, match="control-1 is the last control plane"):
        authorize_removal(edited(other_control_plane), paths, ALL, ["host/control-1"])


def test_a_site_that_was_up_before_there_was_a_ledger_is_protected(
    edited: Callable[[Edit], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "older"))
    paths = SitePaths("lab").create()
    host = InstanceOutput(id="1", name="old-1", address="10.77.0.5", flavor="cpu.small", roles=("postgresql",))
    CloudOutputs(instances={"old-1": host}, networks={}).save(paths)
    with pytest.raises(ProtectedLoss, match="host/old-1"):
        authorize_removal(edited(lambda _: None), paths, ALL, ())
