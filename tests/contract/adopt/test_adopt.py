"""`strata adopt` with the real Pulumi engine and OpenStack provider, against a small OpenStack."""

from __future__ import annotations

import pytest

from .conftest import SITE, Place

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("adopt-contract")]


def test_a_lost_state_is_adopted_and_up_changes_nothing(lost: Place) -> None:
    """First `up` refuses to create everything a second time; nothing is written to the cloud until something drifts."""
    refused = lost.strata("up", "--layer", "cloud")
    assert refused.returncode != 0
    assert "network campus (" in refused.stderr
    assert f"`strata adopt {SITE}` imports them" in refused.stderr, refused.stderr

    adopted = lost.json("adopt", "--yes")
    assert adopted["adopted"]
    assert adopted["missing"] == []
    assert [row for row in adopted["objects"] if row["differs"]] == []
    assert {s["id"] for s in lost.cloud.servers.values()} <= {row["id"] for row in adopted["objects"]}

    again = lost.strata("adopt", "--yes")
    assert again.returncode == 0, again.stderr
    assert "nothing to adopt" in again.stdout
    up = lost.json("up", "--layer", "cloud")
    assert up["changed"] == 0, [step["detail"] for step in up["steps"]]
    assert lost.cloud.writes == []

    assert lost.refresh() == set()
    lost.cloud.server("worker-1")["metadata"] = {"by": "hand"}
    address = next(iter(lost.cloud.neutron.objects["floatingips"]))
    del lost.cloud.neutron.objects["floatingips"][address]
    assert lost.refresh() == {("same", "worker-1"), ("delete", "edge-1")}
    assert lost.cloud.writes == []

    # `up` makes what was deleted, starts an instance that is down, and sets its own metadata
    lost.cloud.server("edge-1")["status"] = "SHUTOFF"
    assert lost.json("up", "--layer", "cloud")["changed"] == 3
    assert lost.cloud.server("edge-1")["status"] == "ACTIVE"
    assert lost.cloud.server("worker-1")["metadata"]["by"] == "hand"
    assert len(lost.cloud.writes) == 3


def test_an_instance_that_up_would_replace_or_rebuild_is_refused(lost: Place) -> None:
    """The site file describes other instances than those that run; approved by name, they are adopted as they are."""
    lost.cloud.server("worker-1")["image"] = {"id": lost.cloud.add_image("other")}
    # a second interface, as if it had been made by hand
    network = lost.cloud.neutron.create("networks", {"name": "storage"})
    lost.cloud.neutron.create("subnets", {"name": "storage", "network_id": network["id"], "cidr": "10.80.0.0/24"})
    given = {
        "network_id": network["id"],
        "device_id": lost.cloud.server("storage-1")["id"],
        "device_owner": "compute:nova",
    }
    lost.cloud.neutron.create("ports", given)
    lost.cloud.neutron.named("security-groups", f"{SITE}-kine")["description"] = "by hand"
    address = next(ip for ip in lost.cloud.neutron.objects["floatingips"].values() if "edge-1" in ip["description"])
    del lost.cloud.neutron.objects["floatingips"][address["id"]]

    router = lost.cloud.neutron.named("routers", SITE)["id"]
    lost.cloud.neutron.create("routers", {"name": SITE})
    choice = ("--map", f"router/router={router}")

    refused = lost.strata("adopt", "--yes", *choice)
    assert refused.returncode == 2, refused.stdout
    assert "worker-1 is rebuilt (imageId)" in refused.stderr, refused.stderr
    assert "storage-1 is replaced (networks)" in refused.stderr
    assert "the data of" in refused.stderr
    assert "--replace storage-1 --replace worker-1" in refused.stderr
    assert "missing, created by the next `strata up`: floating-ip/edge-1" in refused.stdout
    assert not (lost.directory / "state" / SITE / "runs.jsonl").exists()

    adopted = lost.json("adopt", "--yes", *choice, "--replace", "worker-1", "--replace", "storage-1")
    differs = {row["key"]: (row["differs"], row["replaced"]) for row in adopted["objects"] if row["differs"]}
    assert differs == {
        "instance/worker-1": (["imageId"], False),
        "instance/storage-1": (["networks"], True),
        "security-group/kine": (["description"], False),
    }
    asked = lost.strata("up", "--layer", "cloud")
    assert asked.returncode == 4, asked.stderr
    assert "worker-1 is rebuilt" in asked.stderr
    assert lost.cloud.writes == []


def test_names_that_two_objects_have_are_refused(lost: Place) -> None:
    """The state stays as it was; a router can be chosen, a network has to be renamed."""
    real = {
        kind: lost.cloud.neutron.named(kind, name)["id"] for kind, name in (("networks", "campus"), ("routers", SITE))
    }
    other = {
        kind: lost.cloud.neutron.create(kind, {"name": name})["id"]
        for kind, name in (("networks", "campus"), ("routers", SITE))
    }
    refused = lost.strata("adopt", "--yes")
    assert refused.returncode == 2, refused.stdout
    assert f"network/campus: {real['networks']}, {other['networks']}" in refused.stderr
    assert f"or choose one: strata adopt {SITE} --map router/router={real['routers']}" in refused.stderr, refused.stderr
    assert "--map network" not in refused.stderr
    assert not (lost.directory / "state" / SITE / "runs.jsonl").exists()


def test_objects_of_another_project_and_refused_credentials(lost: Place) -> None:
    foreign = lost.cloud.neutron.create("networks", {"name": "theirs", "shared": True}, project="another")
    refused = lost.strata("adopt", "--map", f"network/campus={foreign['id']}")
    assert refused.returncode == 2
    assert f"{foreign['id']} belongs to the project another, not to campus" in refused.stderr, refused.stderr
    missing = lost.strata("adopt", "--map", "instance/worker-1=0b9c3d3e-0000-4000-8000-000000000000")
    assert "the cloud has no instance with the id 0b9c3d3e" in missing.stderr, missing.stderr
    lost.cloud.refuses = True
    unauthorized = lost.strata("adopt")
    assert unauthorized.returncode == 2
    assert "keystone refuses the entry campus of clouds.yaml" in unauthorized.stderr, unauthorized.stderr
