"""What a site expects of an existing cloud, against what the cloud has: each difference names key and fix."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from strata.cloud.flavor_cards import ALIAS
from strata.engine.data_volumes import check_sizes, check_storage, require_volumes_kept, volume_needs
from strata.engine.existing_cloud import checks
from strata.engine.existing_cloud.flavors import check_flavor
from strata.engine.existing_cloud.objects import (
    Allowance,
    CloudObjects,
    FoundFlavor,
    FoundImage,
    FoundNetwork,
    FoundStorage,
    TakenName,
)
from strata.errors import UserError
from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.cloud import Cloud
from strata.models.compute import Flavor, ServerGroup
from strata.models.finding import Finding
from strata.models.key_path import dotted
from strata.models.types import Size
from strata.models.volumes import BootVolume, Volume
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import ExistingObjects
from strata.site_file.inventories import find_site
from strata.site_file.problems import SiteError
from strata.stacks.pulumi_state import project_name, state_file
from strata.stacks.recovery import VOLUME

MD5 = "0" * 32
CLOUD = CloudObjects(
    project="campus",
    roles=frozenset({"member", "reader"}),
    flavors={
        "cpu.small": FoundFlavor(2, 2048, 20, {}),
        "gpu.v100.1": FoundFlavor(4, 4096, 20, {ALIAS: "v100:1"}),
    },
    images=(FoundImage("image-1", "debian-13", frozenset({MD5}), "2026-01-01"),),
    external=(FoundNetwork("net-1", "public"),),
    quota={"instances": Allowance(10, 0), "cores": Allowance(-1, 900), "floatingip": Allowance(2, 0)},
)


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    return SiteContext.load(find_site("campus"))


def model(context: SiteContext) -> Cloud:
    assert context.site.cloud is not None
    return context.site.cloud


def check(context: SiteContext, monkeypatch: pytest.MonkeyPatch, objects: CloudObjects) -> None:
    monkeypatch.setattr(checks, "_read", lambda *_: objects)
    checks.check_existing_cloud(context, Silent())


def test_a_cloud_in_order_passes_and_its_image_is_recorded(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(context, monkeypatch, CLOUD)
    recorded = ExistingObjects.load(context.paths)
    assert recorded is not None
    assert recorded.images == {"debian-13": "image-1"}


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
            replace(CLOUD, flavors={**CLOUD.flavors, "gpu.v100.1": FoundFlavor(4, 4096, 20, {ALIAS: "a100:1"})}),
            "cloud.flavors[1].accelerators",
            "cards a100: 1",
        ),
        (
            replace(CLOUD, flavors={**CLOUD.flavors, "cpu.small": FoundFlavor(2, 2048, 20, {ALIAS: "v100:1"})}),
            "cloud.flavors[0].name",
            "cards v100: 1",
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


@pytest.mark.parametrize(
    ("specs", "accelerators", "fixed"),
    [
        ({ALIAS: "v100_32:1"}, "{v100-32gb: 1}", "accelerators: {v100-32gb: 1}, aliases: {v100-32gb: v100_32}"),
        (
            {ALIAS: "gpu:2,x:1"},
            "{v100: 2, u50: 1}",
            "accelerators: {v100: 2, u50: 1}, aliases: {v100: gpu, u50: x}",
        ),
        ({ALIAS: "Tesla-V100:2"}, "{}", "accelerators: {v100: 2}, aliases: {v100: Tesla-V100}"),
        ({"resources:CUSTOM_PCI_10DE_1DB4": "2"}, "{v100: 1}", "accelerators: {v100: 2}"),
        ({ALIAS: "a100:1"}, "{v100: 1}", "accelerators: {a100: 1}"),
    ],
)
def test_the_fix_of_a_flavors_cards_is_right_when_it_is_applied(
    specs: dict[str, str], accelerators: str, fixed: str
) -> None:
    size = "name: gpu, existing: true, vcpus: 4, memory: 4 GiB, disk: 20 GiB"
    known, kinds = {"gpu": FoundFlavor(4, 4096, 20, specs)}, CATALOGUE

    def findings(cards: str) -> list[Finding]:
        flavor = Flavor.model_validate(yaml.safe_load(f"{{{size}, {cards}}}"))
        return list(check_flavor(flavor, kinds, known, ("cloud", "flavors", 0)))

    (finding,) = findings(f"accelerators: {accelerators}")
    assert finding.fix == f"{fixed}, or another flavor"
    assert findings(fixed) == []


def test_an_alias_of_an_unknown_kind_is_named_in_the_fix() -> None:
    known = {"gpu": FoundFlavor(4, 4096, 20, {ALIAS: "accelerator-x:1"})}
    flavor = Flavor.model_validate({"name": "gpu", "existing": True, "vcpus": 4, "memory": "4 GiB", "disk": "20 GiB"})
    (finding,) = check_flavor(flavor, CATALOGUE, known, ("cloud", "flavors", 0))
    assert "aliases: {KIND: accelerator-x}" in finding.fix


def test_zones_and_server_groups_are_checked(context: SiteContext) -> None:
    cloud = model(context)
    zoned = cloud.instances[0].model_copy(update={"availability_zone": "az1"})
    cloud = cloud.model_copy(update={"instances": (zoned,), "server_groups": (ServerGroup(name="control"),)})
    kinds = context.site.accelerators
    (finding,) = checks.check_objects(cloud, kinds, replace(CLOUD, zones=frozenset({"az2"})))
    assert dotted(finding.path) == "cloud.instances[0].availability_zone"
    assert "az2" in finding.fix
    assert list(checks.check_objects(cloud, kinds, replace(CLOUD, zones=frozenset({"az1"})))) == []
    needs = checks.needs(context, cloud, Counter())
    full = replace(CLOUD, quota={"server_group": Allowance(10, 10)})
    assert [f.why for f in checks.check_quota(needs, full)] == [
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
    monkeypatch.setattr(checks, "_read", lambda *_: replace(objects, taken=()))
    checks.check_existing_cloud(context, Silent(), adopting={"worker-1"})


def test_names_in_the_state_or_of_an_interrupted_run_are_the_sites_own(context: SiteContext) -> None:
    """What a killed run created is deleted by the next one; it must not be taken for somebody else's."""
    everything = checks.unmade_names(context, model(context))
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
    rest = checks.unmade_names(context, model(context))
    assert rest["router"] == set()
    assert set(everything["instance"]) - set(rest["instance"]) == {"worker-1"}


def with_volumes(context: SiteContext, **volume: object) -> Cloud:
    """Campus with one instance, its boot volume and a volume."""
    cloud = model(context)
    data = {"name": "databases", "size": "100 GiB", "mount_path": "/var/lib/postgresql"} | volume
    update = {"boot_volume": BootVolume(size=Size.parse("10 GiB")), "volumes": (Volume.model_validate(data),)}
    return cloud.model_copy(update={"instances": (cloud.instances[0].model_copy(update=update),)})


def deployed_volume(size: int = 100) -> dict[str, dict[str, object]]:
    """What the state has."""
    return {"databases": {"id": "volume-1", "outputs": {"size": size}}}


@pytest.mark.parametrize(
    ("storage", "known", "settings", "expected"),
    [
        (FoundStorage(frozenset({"ssd"})), {}, {"volume_type": "ssd"}, []),
        (FoundStorage(frozenset({"ssd", "hdd"}), {"volume-1": "hdd"}), deployed_volume(), {}, []),
        (
            None,
            {},
            {},
            [("volumes[0].size", "no block storage service"), ("boot_volume.size", "no block storage service")],
        ),
        (
            FoundStorage(frozenset({"ssd"})),
            {},
            {"volume_type": "sdd"},
            [("volumes[0].volume_type", "no such volume type")],
        ),
        (
            FoundStorage(frozenset({"ssd", "hdd"}), {"volume-1": "hdd"}),
            deployed_volume(),
            {"volume_type": "ssd"},
            [("volumes[0].volume_type", "has the type hdd, which `up` does not change")],
        ),
    ],
)
def test_volume_types_are_checked(
    context: SiteContext,
    storage: FoundStorage | None,
    known: dict[str, dict[str, object]],
    settings: dict[str, object],
    expected: list[tuple[str, str]],
) -> None:
    findings = list(check_storage(with_volumes(context, **settings), storage, known))
    assert [dotted(finding.path) for finding in findings] == [f"cloud.instances[0].{key}" for key, _ in expected]
    assert all(why in finding.why for finding, (_, why) in zip(findings, expected, strict=True))


def test_the_quota_of_volumes_is_checked(context: SiteContext) -> None:
    cloud = with_volumes(context)
    assert volume_needs(cloud, {}, set()) == {"volumes": 2, "gigabytes": 110}
    assert volume_needs(cloud, deployed_volume(70), {cloud.instances[0].name}) == {"gigabytes": 30}
    assert volume_needs(cloud, deployed_volume(), {cloud.instances[0].name}) == {}
    full = replace(CLOUD, quota={"gigabytes": Allowance(1000, 950)})
    assert [f.why for f in checks.check_quota({"gigabytes": 110}, full)] == [
        "110 more GiB of volumes are needed, the quota has 50 left of 1000"
    ]


def test_a_volume_does_not_shrink(context: SiteContext) -> None:
    (finding,) = check_sizes(with_volumes(context), deployed_volume(200))
    assert dotted(finding.path) == "cloud.instances[0].volumes[0].size"
    assert "200 GiB" in finding.fix
    assert list(check_sizes(with_volumes(context), deployed_volume())) == []


def test_smaller_volumes_are_refused_in_every_cloud(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the life cycle of an existing cloud compares the rest."""
    smaller = replace(context, site=context.site.model_copy(update={"cloud": with_volumes(context)}))
    monkeypatch.setattr(checks, "deployed_volumes", lambda _: deployed_volume())
    checks.check_volume_sizes(smaller)
    monkeypatch.setattr(checks, "deployed_volumes", lambda _: deployed_volume(200))
    with pytest.raises(SiteError, match="200 GiB"):
        checks.check_volume_sizes(smaller)


def test_a_boot_volume_holds_the_image(context: SiteContext) -> None:
    """The flavor's disk does not count."""
    images = (replace(CLOUD.images[0], disk_gib=15),)
    (finding,) = checks.check_disks(with_volumes(context), replace(CLOUD, images=images), {"debian-13": "image-1"}, ())
    assert dotted(finding.path) == "cloud.instances[0].boot_volume.size"
    assert "needs 15 GiB" in finding.why


def test_a_volume_is_not_deleted_unnamed(context: SiteContext) -> None:
    steps = [
        {"op": op, "urn": f"urn:pulumi:campus::strata-cloud::strata:cloud:Volume${VOLUME}::{name}"}
        for op, name in (("delete", "old"), ("create-replacement", "databases"), ("update", "exports"))
    ]
    with pytest.raises(UserError, match="delete volumes with data: databases, old"):
        require_volumes_kept(context, steps, ())
    with pytest.raises(UserError, match=r"delete volumes with data: databases\n"):
        require_volumes_kept(context, steps, ["old"])
    require_volumes_kept(context, steps, ["old", "databases"])


def test_an_image_that_is_uploaded_again_replaces_no_instance(context: SiteContext) -> None:
    """The recorded id stays; where the image has vanished, only a new instance needs another one."""
    cloud = model(context)
    names = {i.name for i in cloud.instances}
    again = replace(CLOUD, images=(replace(CLOUD.images[0], id="image-2"),))
    both = replace(CLOUD, images=(*CLOUD.images, *again.images))
    known = {"debian-13": "image-1"}
    assert checks.choose_images(cloud, both, known, set()) == (known, [])
    assert checks.choose_images(cloud, again, known, names) == (known, [])
    chosen, (finding,) = checks.choose_images(cloud, again, known, names - {"worker-1"})
    assert chosen == {}
    assert dotted(finding.path) == "cloud.images[0].name"
    assert "image-1 has vanished; the cloud has image-2" in finding.why


def test_a_disk_too_small_for_the_image_is_found_before_nova_refuses_it(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new instance is named; one that runs already has its disk."""
    large = replace(CLOUD, images=(replace(CLOUD.images[0], disk_gib=21),))
    with pytest.raises(SiteError) as raised:
        check(context, monkeypatch, large)
    problems = raised.value.problems
    assert [p.key for p in problems] == [f"cloud.instances[{n}].flavor" for n in range(7)]
    assert "has a disk of 20 GiB, and the image debian-13 needs 21 GiB" in problems[0].why
    assert problems[0].fix == "a flavor with a disk of 21 GiB or more, or another image"
    cloud = model(context)
    rest = {i.name for i in cloud.instances} - {"worker-1"}
    (finding,) = checks.check_disks(cloud, large, {"debian-13": "image-1"}, rest)
    assert "21 GiB" in finding.why
    check(context, monkeypatch, replace(CLOUD, images=(replace(CLOUD.images[0], disk_gib=20),)))


def test_a_checksum_chooses_among_images_of_one_name(context: SiteContext) -> None:
    other = replace(CLOUD.images[0], id="image-2", checksums=frozenset({"1" * 32}))
    objects = replace(CLOUD, images=(*CLOUD.images, other))
    image = model(context).images[0].model_copy(update={"checksum": "1" * 32})
    cloud = model(context).model_copy(update={"images": (image,)})
    assert checks.choose_images(cloud, objects, {}, set()) == ({"debian-13": "image-2"}, [])
    _, (finding,) = checks.choose_images(cloud, CLOUD, {}, set())
    assert dotted(finding.path) == "cloud.images[0].checksum"


def test_what_exists_already_needs_no_quota(context: SiteContext) -> None:
    """A run that ended half way is resumed within the quota that it has used up."""
    cloud = model(context)
    everything = checks.needs(context, cloud, Counter())
    assert everything["instances"] == 7
    assert everything["memory"] == 6 * 2048 + 4096
    assert (everything["router"], everything["floatingip"]) == (1, 1)
    made = Counter(
        {("Instance", "edge-1"): 1, ("Port", "edge-1"): 1, ("Router", "router"): 1, ("FloatingIp", "edge-1"): 1}
    )
    rest = checks.needs(context, cloud, made)
    assert rest["instances"] == 6
    assert rest["port"] == everything["port"] - 1
    assert "router" not in rest
    assert "floatingip" not in rest


def test_refused_credentials_name_the_entry(
    context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keystoneauth1.exceptions import Unauthorized  # noqa: PLC0415  # loads openstack: 0.2 s

    def refuse(*_: object) -> None:
        raise Unauthorized("The request you have made requires authentication. (HTTP 401)")

    clouds = tmp_path / "clouds.yaml"
    clouds.write_text("clouds: {campus: {auth: {auth_url: 'http://192.0.2.1:5000/v3', username: u, password: p}}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    monkeypatch.setattr(checks, "find_objects", refuse)
    with pytest.raises(SiteError, match=r"cloud\.credentials: .*keystone refuses the entry campus") as raised:
        checks.check_existing_cloud(context, Silent())
    assert "application credential may have expired" in str(raised.value.fix)
