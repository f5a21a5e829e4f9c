"""Each fix that the check of an existing cloud prints: applied to the site file, it is valid, and the check passes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.engine.existing_cloud import checks
from strata.engine.existing_cloud.objects import (
    Allowance,
    CloudObjects,
    FoundFlavor,
    FoundImage,
    FoundNetwork,
    FoundStorage,
)
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.site_file.problems import Problem, SiteError

FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
SUM = "0" * 32
ALIAS = "pci_passthrough:alias"
CLOUD = CloudObjects(
    project="campus",
    roles=frozenset({"member"}),
    flavors={"cpu.small": FoundFlavor(2, 2048, 20, {}), "gpu.v100.1": FoundFlavor(4, 4096, 20, {ALIAS: "v100:1"})},
    images=(FoundImage(FIRST, "debian-13", frozenset({SUM}), "2026-01-01"),),
    external=(FoundNetwork(FIRST, "public"),),
    quota={"instances": Allowance(10, 0)},
    storage=FoundStorage(frozenset({"ssd"})),
)
SMALL = CLOUD.flavors["cpu.small"]
GPU = CLOUD.flavors["gpu.v100.1"]
EDIT = tuple[str, str]


def flavors(**change: FoundFlavor) -> CloudObjects:
    return replace(
        CLOUD, flavors={**CLOUD.flavors, **{name.replace("_", "."): flavor for name, flavor in change.items()}}
    )


CASES: dict[str, tuple[CloudObjects, tuple[EDIT, ...]]] = {
    "another project": (replace(CLOUD, project="physics"), ()),
    "CPUs of a flavor": (flavors(cpu_small=replace(SMALL, vcpus=4)), ()),
    "memory of a flavor": (flavors(cpu_small=replace(SMALL, memory_mib=3500)), ()),
    "disk of a flavor": (flavors(cpu_small=replace(SMALL, disk_gib=40)), ()),
    "flavor without a disk": (flavors(gpu_v100_1=replace(GPU, disk_gib=0)), ()),
    "every size of a flavor": (flavors(cpu_small=FoundFlavor(8, 16384, 80, {})), ()),
    "misspelt flavor": (CLOUD, (("cpu.small", "cpu.smal"),)),
    "another kind of cards": (flavors(gpu_v100_1=replace(GPU, extra_specs={ALIAS: "a100:1"})), ()),
    "another alias": (flavors(gpu_v100_1=replace(GPU, extra_specs={ALIAS: "tesla:1"})), ()),
    "two images of a name": (replace(CLOUD, images=(*CLOUD.images, replace(CLOUD.images[0], id=SECOND))), ()),
    "community image": (replace(CLOUD, images=(replace(CLOUD.images[0], community=True),)), ()),
    "two external networks": (replace(CLOUD, external=(*CLOUD.external, FoundNetwork(SECOND, "public"))), ()),
    "misspelt zone": (
        replace(CLOUD, zones=frozenset({"nova-1"})),
        (("roles: [kube_node, gpu_node]", "roles: [kube_node, gpu_node], availability_zone: nova1"),),
    ),
    "misspelt volume type": (
        CLOUD,
        (("roles: [kube_node]}", "roles: [kube_node], boot_volume: {size: 20 GiB, volume_type: sdd}}"),),
    ),
    "small boot volume": (
        replace(CLOUD, images=(replace(CLOUD.images[0], disk_gib=15),)),
        (("roles: [kube_node]}", "roles: [kube_node], boot_volume: {size: 10 GiB}}"),),
    ),
    "misspelt subnet": (
        replace(CLOUD, networks=(FoundNetwork(SECOND, "campus", ("10.79.1.0/24",)),)),
        (("{name: campus, cidr: 10.79.0.0/24}", "{name: campus, existing: true, cidr: 10.79.0.0/24}"),),
    ),
    "network of another project": (
        replace(CLOUD, networks=(FoundNetwork(SECOND, "campus", ("10.79.0.0/24",), address_pairs=False),)),
        (("{name: campus, cidr: 10.79.0.0/24}", "{name: campus, existing: true, cidr: 10.79.0.0/24}"),),
    ),
}


def steps(key: str) -> list[str | int]:
    """Parts of a key path, "cloud.flavors[0].name"."""
    return [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", key)]


def at(content: Any, path: list[str | int]) -> Any:
    for step in path:
        content = content[step]
    return content


def applied(content: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """The site as an operator edits it by the first thing that the fix offers."""
    *parent, last = steps(problem.key)
    section = at(content, parent)
    fix = re.split(r"; or |, or | or |, if |, so that | to the instance", problem.fix)[0]
    if meant := re.match(r"(?:did you mean (.+)\?|one of the .*: ([^,]+))", fix):
        old, new = section[last], meant[1] or meant[2]
        # a name is changed wherever it is
        changed: dict[str, Any] = yaml.safe_load(yaml.safe_dump(content).replace(f": {old}\n", f": {new}\n"))
        return changed
    if removed := re.match(r"remove ([\w-]+)", fix):
        del section[removed[1]]
    elif size := re.match(r"a size of (\d+ GiB)", fix):
        section[last] = size[1]
    elif isinstance(values := yaml.safe_load(f"{{{fix.removeprefix('add ')}}}"), dict) and None not in values.values():
        section |= values
    else:
        section[last] = fix
    return content


@pytest.mark.parametrize("case", CASES)
def test_a_fix_is_right_when_it_is_applied(
    state_directory: Path, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, edits = CASES[case]
    monkeypatch.setattr(checks, "_read", lambda *_: objects)
    text = find_site("campus").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "site.yaml"
    file.write_text(text)
    fixes: list[str] = []
    for _ in range(5):  # a fix may need another one: a flavor without a disk needs boot volumes
        try:
            checks.check_existing_cloud(SiteContext.load(file), Silent())
            break
        except SiteError as error:
            content = yaml.safe_load(file.read_text())
            for problem in error.problems:
                content = applied(content, problem)
                fixes.append(str(problem))
            file.write_text(yaml.safe_dump(content, sort_keys=False))
    else:
        pytest.fail("\n".join(fixes))
    assert fixes
