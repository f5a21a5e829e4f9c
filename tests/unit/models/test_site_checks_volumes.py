"""Errors in volumes, which cinder, nova or the host would find after minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata.site_file.problems import Problem

from .conftest import LAB, Edit

COMPLETE = REPOSITORY / "tests" / "corpus" / "complete"
EXISTING = (COMPLETE / "existing.yaml").read_text()
KOLLA = (COMPLETE / "kolla.yaml").read_text()
CEPH = next(line + "\n" for line in KOLLA.splitlines() if line.strip().startswith("ceph:"))
DATABASES = "{name: databases, size: 200 GiB, volume_type: ssd, mount_path: /var/lib/postgresql}"
EXPORTS = "{name: exports, size: 2 TiB, mount_path: /srv/nfs}"
CONTROL = "{name: control-1, flavor: small, image: trixie, network: internal, roles: [kube_control_plane]"
VOLUMES = "cloud.instances[0].volumes"
LAB_WORKER = "{name: worker-1, flavor: cpu.medium, image: debian-12, network: platform, roles: [kube_node]"
KOLLA_INSTANCE = "{name: storage-1, "
SMALL_DISK = "{name: small, vcpus: 2, memory: 4 GiB, disk: 20 GiB}"
NO_DISK = SMALL_DISK.replace("20 GiB", "0 GiB")
LAB_FLAVOR = "{name: cpu.medium, vcpus: 2, memory: 4 GiB, disk: 20 GiB}"
CASES: dict[str, tuple[str, Sequence[Edit], str, str, str]] = {
    "relative mount path": (
        EXISTING,
        [("mount_path: /srv/nfs}", "mount_path: srv/nfs}")],
        f"{VOLUMES}[1].mount_path",
        "absolute path other than /",
        "for instance /srv/nfs",
    ),
    "root as mount path": (
        EXISTING,
        [("mount_path: /srv/nfs}", "mount_path: /}")],
        f"{VOLUMES}[1].mount_path",
        "absolute path other than /",
        "for instance",
    ),
    "space in a mount path": (
        EXISTING,
        [("mount_path: /srv/nfs}", "mount_path: /srv/nfs data}")],
        f"{VOLUMES}[1].mount_path",
        "without spaces",
        "for instance",
    ),
    "one mount path for two volumes": (
        EXISTING,
        [("mount_path: /srv/nfs}", "mount_path: /var/lib/postgresql/}")],
        f"{VOLUMES}[1].mount_path",
        "duplicate: /var/lib/postgresql",
        "another value",
    ),
    "one name on two instances": (
        EXISTING,
        [(CONTROL, f"{CONTROL}, volumes: [{EXPORTS}]")],
        "cloud.instances[1].volumes[0].name",
        "duplicate: exports",
        "another value",
    ),
    "part of a GiB": (
        EXISTING,
        [("size: 200 GiB", "size: 1500 MiB")],
        f"{VOLUMES}[0].size",
        "whole number of GiB",
        "100 GiB",
    ),
    "no size at all": (
        EXISTING,
        [("boot_volume: {size: 40 GiB", "boot_volume: {size: 0 GiB")],
        "cloud.instances[0].boot_volume.size",
        "at least one",
        "100 GiB",
    ),
    "volumes in a lab": (
        LAB,
        [(LAB_WORKER, f"{LAB_WORKER}, volumes: [{EXPORTS}]")],
        "cloud.instances[2].volumes",
        "needs cinder, which the cloud has not",
        "remove volumes",
    ),
    "boot volume in a lab": (
        LAB,
        [(LAB_WORKER, f"{LAB_WORKER}, boot_volume: {{size: 20 GiB}}")],
        "cloud.instances[2].boot_volume",
        "needs cinder",
        "remove boot_volume",
    ),
    "no root disk": (
        EXISTING,
        [(SMALL_DISK, NO_DISK)],
        "cloud.instances[1].flavor",
        "has no root disk (disk: 0 GiB), and the instance control-1 has no boot_volume",
        "add boot_volume: {size: 20 GiB} to the instance, or choose a flavor with a disk",
    ),
    "no root disk in a lab": (
        LAB,
        [(LAB_FLAVOR, LAB_FLAVOR.replace("20 GiB", "0 GiB"))],
        "cloud.instances[2].flavor",
        "has no root disk",
        "a flavor with a disk",
    ),
    "part of a GiB as root disk": (
        EXISTING,
        [(SMALL_DISK, SMALL_DISK.replace("20 GiB", "100 MiB"))],
        "cloud.flavors[0].disk",
        "whole number of GiB",
        "for instance 20 GiB",
    ),
    "Kolla without Ceph": (
        KOLLA,
        [(CEPH, ""), (KOLLA_INSTANCE, f"{KOLLA_INSTANCE}volumes: [{EXPORTS}], ")],
        "cloud.instances[0].volumes",
        "only with cloud.kolla.ceph",
        "add cloud.kolla.ceph",
    ),
}


@pytest.fixture(autouse=True)
def authority(tmp_path: Path) -> None:
    """The file that a complete site names."""
    (tmp_path / "authority.pem").write_text((COMPLETE / "authority.pem").read_text())


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_volume_is_reported_at_its_key(
    name: str, site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    text, edits, key, why, fix = CASES[name]
    problems = problems_of(site_file(*edits, text=text))
    assert [p.key for p in problems] == [key], [str(p) for p in problems]
    assert why in problems[0].why
    assert fix in problems[0].fix


def test_volumes_of_kolla_are_in_ceph(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    edit = (KOLLA_INSTANCE, f"{KOLLA_INSTANCE}boot_volume: {{size: 20 GiB}}, volumes: [{EXPORTS}], ")
    assert problems_of(site_file(edit, text=KOLLA)) == ()


def test_a_flavor_of_instances_that_boot_from_volumes_needs_no_disk(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    booted = (CONTROL, f"{CONTROL}, boot_volume: {{size: 20 GiB}}")
    assert problems_of(site_file((SMALL_DISK, NO_DISK), booted, text=EXISTING)) == ()
