"""What a site expects of an existing cloud, against what the cloud has: each difference names key and fix."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from strata.engine import existing_cloud
from strata.engine.cloud_objects import (
    Allowance,
    CloudObjects,
    FoundFlavor,
    FoundImage,
    FoundNetwork,
    TakenName,
    accelerators,
)
from strata.errors import UserError
from strata.models import find_site
from strata.models.cloud import Cloud
from strata.models.compute import ServerGroup
from strata.models.problems import SiteError
from strata.models.yaml_events import dotted
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import ExistingObjects
from strata.stacks.state import project_name, state_file

MD5 = "0" * 32
CLOUD = CloudObjects(
    project="campus",
    roles=frozenset({"member", "reader"}),
    flavors={
        "cpu.small": FoundFlavor(2, 2048, 20, {}),
        "gpu.v100.1": FoundFlavor(4, 4096, 20, {"v100": 1}),
    },
    images=(FoundImage("image-1", "debian-12", frozenset({MD5}), "2026-01-01"),),
    external=(FoundNetwork("net-1", "public"),),
    quota={"instances": Allowance(10, 0), "cores": Allowance(-1, 900), "floatingip": Allowance(2, 0)},
)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    return SiteContext.load(find_site("campus"))


def model(context: SiteContext) -> Cloud:
    assert context.site.cloud is not None
    return context.site.cloud


def check(context: SiteContext, monkeypatch: pytest.MonkeyPatch, objects: CloudObjects) -> None:
    monkeypatch.setattr(existing_cloud, "_read", lambda *_: objects)
    existing_cloud.check_existing_cloud(context, Silent())


def test_a_cloud_in_order_passes_and_its_image_is_recorded(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(context, monkeypatch, CLOUD)
    recorded = ExistingObjects.load(context.paths)
    assert recorded is not None
    assert recorded.images == {"debian-12": "image-1"}


@pytest.mark.parametrize(
    ("objects", "key", "why"),
    [
        (replace(CLOUD, project="other"), "cloud.project.name", "for the project other"),
        (
            replace(CLOUD, flavors={"gpu.v100.1": CLOUD.flavors["gpu.v100.1"]}),
            "cloud.flavors[0].name",
            "no such flavor",
        ),
        (
            replace(CLOUD, flavors={**CLOUD.flavors, "cpu.small": FoundFlavor(4, 2048, 20, {})}),
            "cloud.flavors[0].vcpus",
            "has 4",
        ),
        (
            replace(CLOUD, flavors={**CLOUD.flavors, "gpu.v100.1": FoundFlavor(4, 4096, 20, {"a100": 1})}),
            "cloud.flavors[1].accelerators",
            "PCI aliases a100: 1",
        ),
        (
            replace(CLOUD, flavors={**CLOUD.flavors, "cpu.small": FoundFlavor(2, 2048, 20, {"v100": 1})}),
            "cloud.flavors[0].name",
            "PCI aliases v100: 1",
        ),
        (replace(CLOUD, images=()), "cloud.images[0].name", "no such image"),
        (
            replace(CLOUD, images=(*CLOUD.images, replace(CLOUD.images[0], id="image-2"))),
            "cloud.images[0].name",
            "2 images have this name: image-1",
        ),
        (replace(CLOUD, external=()), "cloud.external_network", "no such external network"),
        (
            replace(CLOUD, external=(*CLOUD.external, FoundNetwork("net-2", "public"))),
            "cloud.external_network",
            "net-1, net-2",
        ),
        (replace(CLOUD, quota={"instances": Allowance(10, 8)}), "cloud.project", "7 more instances are needed"),
        (replace(CLOUD, quota={"cores": Allowance(10, 0)}), "cloud.project", "16 more cores are needed"),
        (replace(CLOUD, quota={"floatingip": Allowance(3, 3)}), "cloud.project", "1 more floating IPs are needed"),
    ],
)
def test_each_difference_names_its_key_and_records_nothing(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, objects: CloudObjects, key: str, why: str
) -> None:
    with pytest.raises(SiteError) as raised:
        check(context, monkeypatch, objects)
    (problem,) = raised.value.problems
    assert problem.key == key
    assert why in problem.why
    assert problem.fix
    assert problem.file == context.site_file
    assert problem.line
    assert ExistingObjects.load(context.paths) is None


def test_zones_and_server_groups_are_checked(context: SiteContext) -> None:
    cloud = model(context)
    zoned = cloud.instances[0].model_copy(update={"availability_zone": "az1"})
    cloud = cloud.model_copy(update={"instances": (zoned,), "server_groups": (ServerGroup(name="control"),)})
    (finding,) = existing_cloud.check_objects(cloud, replace(CLOUD, zones=frozenset({"az2"})))
    assert dotted(finding.path) == "cloud.instances[0].availability_zone"
    assert "az2" in finding.fix
    assert list(existing_cloud.check_objects(cloud, replace(CLOUD, zones=frozenset({"az1"})))) == []
    wanted = existing_cloud.needs(context, cloud, Counter())
    full = replace(CLOUD, quota={"server_group": Allowance(10, 10)})
    assert [f.why for f in existing_cloud.check_quota(wanted, full)] == [
        "1 more server groups are needed, the quota has 0 left of 10"
    ]


def test_names_of_the_project_that_up_would_give_to_others(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neutron and nova would take a second object of the name; `strata adopt` is not stopped by the first."""
    taken = tuple(TakenName("security group", f"campus-{n}", f"id-{n}") for n in range(8))
    objects = replace(CLOUD, taken=taken, quota={"instances": Allowance(5, 5)})
    with pytest.raises(UserError, match=r"security group campus-0 \(id-0\), .* and 2 more") as raised:
        check(context, monkeypatch, objects)
    assert "`strata adopt campus` imports them" in str(raised.value.fix)
    monkeypatch.setattr(existing_cloud, "_read", lambda *_: replace(objects, taken=()))
    existing_cloud.check_existing_cloud(context, Silent(), adopting={"worker-1"})


def test_names_in_the_state_or_of_an_interrupted_run_are_the_sites_own(context: SiteContext) -> None:
    """What a killed run created is deleted by the next one; it must not be taken for somebody else's."""
    everything = existing_cloud.unmade_names(context, model(context))
    assert everything["instance"] == {i.name for i in model(context).instances}
    assert everything["router"] == {"campus"}
    assert "campus-kube-node" in everything["security group"]
    file = state_file(context.paths.pulumi, project_name("cloud"), "campus")
    file.parent.mkdir(parents=True)
    urn = "urn:pulumi:campus::strata-cloud::openstack:{}::{}"
    router = {"urn": urn.format("networking/router:Router", "router"), "id": "r1"}
    worker = {"urn": urn.format("compute/instance:Instance", "worker-1")}
    pending = [{"resource": worker, "type": "creating"}]
    file.write_text(json.dumps({"checkpoint": {"latest": {"resources": [router], "pending_operations": pending}}}))
    rest = existing_cloud.unmade_names(context, model(context))
    assert rest["router"] == set()
    assert set(everything["instance"]) - set(rest["instance"]) == {"worker-1"}


def test_an_image_that_is_uploaded_again_replaces_no_instance(context: SiteContext) -> None:
    """The recorded id stays; where the image has vanished, only a new instance needs another one."""
    cloud = model(context)
    names = {i.name for i in cloud.instances}
    again = replace(CLOUD, images=(replace(CLOUD.images[0], id="image-2"),))
    both = replace(CLOUD, images=(*CLOUD.images, *again.images))
    known = {"debian-12": "image-1"}
    assert existing_cloud.choose_images(cloud, both, known, set()) == (known, [])
    assert existing_cloud.choose_images(cloud, again, known, names) == (known, [])
    chosen, (finding,) = existing_cloud.choose_images(cloud, again, known, names - {"worker-1"})
    assert chosen == {}
    assert dotted(finding.path) == "cloud.images[0].name"
    assert "image-1 has vanished; the cloud has image-2" in finding.why


def test_a_checksum_chooses_among_images_of_one_name(context: SiteContext) -> None:
    other = replace(CLOUD.images[0], id="image-2", checksums=frozenset({"1" * 32}))
    objects = replace(CLOUD, images=(*CLOUD.images, other))
    image = model(context).images[0].model_copy(update={"checksum": "1" * 32})
    cloud = model(context).model_copy(update={"images": (image,)})
    assert existing_cloud.choose_images(cloud, objects, {}, set()) == ({"debian-12": "image-2"}, [])
    _, (finding,) = existing_cloud.choose_images(cloud, CLOUD, {}, set())
    assert dotted(finding.path) == "cloud.images[0].checksum"


def test_what_exists_already_needs_no_quota(context: SiteContext) -> None:
    """A run that ended half way is resumed within the quota that it has used up."""
    cloud = model(context)
    everything = existing_cloud.needs(context, cloud, Counter())
    assert everything["instances"] == 7
    assert everything["memory"] == 6 * 2048 + 4096
    assert (everything["router"], everything["floatingip"]) == (1, 1)
    made = Counter(
        {("Instance", "edge-1"): 1, ("Port", "edge-1"): 1, ("Router", "router"): 1, ("FloatingIp", "edge-1"): 1}
    )
    rest = existing_cloud.needs(context, cloud, made)
    assert rest["instances"] == 6
    assert rest["port"] == everything["port"] - 1
    assert "router" not in rest
    assert "floatingip" not in rest


def test_refused_credentials_name_the_entry(
    context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keystoneauth1.exceptions import Unauthorized

    def refuse(*_: object) -> None:
        raise Unauthorized("The request you have made requires authentication. (HTTP 401)")

    clouds = tmp_path / "clouds.yaml"
    clouds.write_text("clouds: {campus: {auth: {auth_url: 'http://192.0.2.1:5000/v3', username: u, password: p}}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    monkeypatch.setattr(existing_cloud, "find_objects", refuse)
    with pytest.raises(SiteError, match=r"cloud\.credentials: .*keystone refuses the entry campus") as raised:
        existing_cloud.check_existing_cloud(context, Silent())
    assert "application credential may have expired" in str(raised.value.fix)


def test_aliases_of_a_flavor() -> None:
    assert accelerators({"pci_passthrough:alias": "v100:1, u50:2"}) == {"v100": 1, "u50": 2}
    assert accelerators({"hw:cpu_policy": "dedicated"}) == {}
