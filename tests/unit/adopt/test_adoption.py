"""What is filled in after an import, what is refused, and what is shown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from strata.adopt.adoption import Adoption, Row, check_site
from strata.adopt.project import PORT, CloudObject
from strata.adopt.render import render
from strata.adopt.unread import RAW_STATE, fill_in
from strata.cli.commands.adopt import _chosen, complete_map
from strata.engine.changes import disruption
from strata.engine.changes.disruption import Applied, Approval, Disruption, disruptions, require_approval
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.stacks import pulumi
from strata.stacks.recovery import INSTANCE

REPLACED = Disruption("storage-1", "replaced", ("networks",), ("nfs_server",))
RESIZED = Disruption("worker-1", "resized", ("flavorId",))


@pytest.fixture
def campus(state_directory: Path) -> SiteContext:
    return SiteContext.load(find_site("campus"))


def test_an_imported_instance_has_the_ports_that_the_cloud_gave_it() -> None:
    """Without them its next diff is a replacement; what was not imported now stays as it is."""
    ports = [
        CloudObject(
            "p1",
            "worker-1",
            {
                "mac_address": "fa:16",
                "fixed_ips": [{"subnet_id": "b1", "ip_address": "10.79.0.5"}],
                "security_group_ids": ["g1"],
            },
        )
    ]
    imported: dict[str, Any] = {
        "type": INSTANCE,
        "id": "s1",
        "inputs": {"networks": [{"name": "campus"}], "blockDevices": [{"uuid": "i1"}]},
        "outputs": {"networks": [{"mac": "fa:16", "port": ""}], "forceDelete": None, RAW_STATE: {}},
    }
    imported_port: dict[str, Any] = {"type": PORT, "id": "p1", "inputs": {}, "outputs": {}}
    earlier: dict[str, Any] = {"type": INSTANCE, "id": "s0", "inputs": {"networks": [{"port": "p0"}]}, "outputs": {}}
    groups = [CloudObject("g1", "workers", {"member_ids": ["s0", "s1"]})]
    fill_in([imported, imported_port, earlier], ports, groups, {"s1": "ssd"}, {"s1", "p1"})
    assert imported["inputs"]["schedulerHints"] == [{"__defaults": [], "group": "g1"}]
    assert imported["inputs"]["networks"] == [{"__defaults": [], "port": "p1"}]
    assert imported["outputs"]["networks"][0]["port"] == "p1"
    assert imported["outputs"]["forceDelete"] is False
    assert imported["inputs"]["blockDevices"] == [{"uuid": "i1", "volumeType": "ssd"}]
    assert RAW_STATE not in imported["outputs"]
    assert imported_port["inputs"]["fixedIps"] == [{"__defaults": [], "subnetId": "b1"}]
    assert imported_port["inputs"]["securityGroupIds"] == ["g1"]
    assert earlier == {"type": INSTANCE, "id": "s0", "inputs": {"networks": [{"port": "p0"}]}, "outputs": {}}


def test_a_replacement_must_be_approved_by_name_and_a_resize_is_left_to_up() -> None:
    adoption = Adoption(disrupted=(REPLACED, RESIZED))
    with pytest.raises(UserError, match=r"storage-1 is replaced \(networks\)") as raised:
        adoption.require_approval("campus", Approval())
    assert "strata adopt campus --replace storage-1" in str(raised.value.fix)
    assert "worker-1" not in str(raised.value)
    adoption.require_approval("campus", Approval(frozenset({"storage-1"})))


def test_ambiguous_names_are_refused_with_all_ids() -> None:
    adoption = Adoption(ambiguous={"router/router": ("r1", "r2"), "network/campus": ("n1", "n2")})
    with pytest.raises(UserError, match="could be meant: router/router: r1, r2; network/campus: n1, n2") as raised:
        adoption.require_unambiguous("campus")
    assert "--map router/router=r1" in str(raised.value.fix)
    assert "--map network" not in str(raised.value.fix)


def test_the_table_names_what_up_would_change_and_counts_what_is_the_same() -> None:
    adoption = Adoption(
        rows=(
            Row("instance/storage-1", "s1", ("networks",), replaced=True),
            Row("network/campus", "n1"),
            Row("security-group-rule/a", "r1"),
            Row("security-group-rule/b", "r2", ("description",)),
        ),
        missing=tuple(f"floating-ip/{n}" for n in range(14)),
        disrupted=(REPLACED,),
    )
    stream = io.StringIO()
    render(adoption, Console(file=stream, width=200))
    text = stream.getvalue()
    assert "REPLACES it (networks)" in text
    assert "changes it (description)" in text
    assert "and 1 objects of the kind security-group-rule, unchanged" in text
    assert "floating-ip/11 and 2 more" in text
    assert "it holds the data of nfs_server" in text


def test_only_an_existing_project_of_an_existing_cloud_has_something_to_adopt(state_directory: Path) -> None:
    for site, why in (("lab", "site lab has none"), ("nautilus", "has none"), ("cnaf", "is not marked as existing")):
        with pytest.raises(UserError, match=why):
            check_site(SiteContext.load(find_site(site)))


@pytest.mark.parametrize("entry", ["worker-1=id", "instance/worker-1", "instance/=id", "/worker-1=id"])
def test_a_choice_that_does_not_parse(entry: str) -> None:
    with pytest.raises(UserError, match="not KIND/NAME=ID"):
        _chosen([entry])


def test_choices_and_their_completion() -> None:
    assert _chosen(["instance/worker-1=abc=d"]) == {"instance/worker-1": "abc=d"}
    assert complete_map("net") == ["network/"]


def test_up_asks_after_an_adoption_though_the_layer_has_no_outputs(
    campus: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first `up` has nothing to disrupt and previews nothing; an adopted instance would be replaced unasked."""
    step = {"op": "replace", "urn": f"urn:pulumi:campus::strata-cloud::{INSTANCE}::worker-1", "diffs": ["networks"]}
    result = pulumi.PulumiResult(0, 0, 0, 0, 0.0, planned=[step])
    monkeypatch.setattr(pulumi, "preview", lambda *_, **__: result)
    assert require_approval(campus, Approval(), Silent()) == []
    Applied().save(campus.paths)
    with pytest.raises(disruption.ApprovalNeeded, match="worker-1 is replaced"):
        require_approval(campus, Approval(), Silent())


def test_why_an_instance_is_replaced_is_found_in_any_of_its_steps(campus: SiteContext) -> None:
    urn = f"urn:pulumi:campus::strata-cloud::{INSTANCE}::worker-1"
    steps: list[dict[str, Any]] = [
        {"op": "delete-replaced", "urn": urn},
        {"op": "replace", "urn": urn, "diffs": ["networks"]},
    ]
    for order in (steps, steps[::-1]):
        (disruption,) = disruptions(campus, order)
        assert disruption.because == ("networks",)
