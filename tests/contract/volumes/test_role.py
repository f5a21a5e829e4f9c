"""The role volumes on this machine, with real disks of loop devices and a file system table of its own."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strata_bench.local_playbook import run_locally

pytestmark = pytest.mark.nightly

ID = str(uuid.uuid4())
PLAY = {"hosts": "all", "gather_facts": False, "roles": ["volumes"]}


def shell(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Host:
    """This machine, as far as the role sees it.

    Args:
        directory: for the disk's file, the links to disks, fstab and mount points.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "disk"
        self.links, self.fstab = directory / "by-id", directory / "fstab"
        self.links.mkdir()
        self.fstab.write_text("# none\n")
        with self.file.open("wb") as disk:
            disk.truncate(64 * 2**20)
        self.disk = shell("losetup", "--find", "--show", str(self.file))
        self.link(f"virtio-{ID[:20]}")
        self.path = directory / "srv" / "data"

    def link(self, name: str) -> None:
        """Names the disk as udev does."""
        for old in self.links.iterdir():
            old.unlink()
        (self.links / name).symlink_to(self.disk)

    def run(self, *volumes: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Runs the role."""
        variables: dict[str, Any] = {
            "strata_site": "campus",
            "volumes_of_hosts": {"storage-1": list(volumes)},
            "volumes_devices": str(self.links),
            "volumes_fstab": str(self.fstab),
            "volumes_wait_seconds": 0,
        }
        return run_locally(self.directory / "play.yml", "storage-1", PLAY, variables)

    def volume(self, path: Path | None = None, identifier: str = ID) -> dict[str, Any]:
        """The volume on the disk."""
        return {"name": "data", "id": identifier, "mount_path": str(path or self.path)}

    def mounted_on(self) -> list[str]:
        """Where the disk is mounted."""
        completed = subprocess.run(
            ["findmnt", "--noheadings", "--output", "TARGET", self.disk], capture_output=True, text=True, check=False
        )
        return completed.stdout.split()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    try:
        prepared = Host(tmp_path)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no loop device: {error}")
    yield prepared
    for mount_point in prepared.mounted_on():
        shell("umount", mount_point)
    for path in (prepared.path, tmp_path / "elsewhere"):
        with suppress(subprocess.CalledProcessError):  # not every file system knows the attribute
            shell("chattr", "-i", str(path))
    shell("losetup", "--detach", prepared.disk)


def recap(done: subprocess.CompletedProcess[str]) -> str:
    """Ansible's last line."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a run that must fail, on one line."""
    assert done.returncode != 0, done.stdout
    return " ".join(done.stdout.split())


def test_a_blank_disk_is_formatted_once_and_mounted_elsewhere(host: Host) -> None:
    recap(host.run(host.volume()))
    assert host.mounted_on() == [str(host.path)]
    identifier = shell("blkid", "--probe", "--match-tag", "UUID", "--output", "value", host.disk)
    assert f"UUID={identifier} {host.path} ext4 nofail" in host.fstab.read_text()
    (host.path / "file").write_text("data")
    assert "changed=0" in recap(host.run(host.volume()))

    # another directory, and SCSI, whose serial number is the whole id
    host.link(f"scsi-0QEMU_QEMU_HARDDISK_{ID}")
    recap(host.run(host.volume(host.directory / "elsewhere")))
    assert host.mounted_on() == [str(host.directory / "elsewhere")]
    assert (host.directory / "elsewhere" / "file").read_text() == "data"
    assert str(host.path) not in host.fstab.read_text()
    assert "changed=0" in recap(host.run(host.volume(host.directory / "elsewhere")))

    recap(host.run())
    assert host.mounted_on() == []
    assert "UUID" not in host.fstab.read_text()


def test_the_file_system_grows_with_the_volume(host: Host) -> None:
    recap(host.run(host.volume()))
    (host.path / "file").write_text("data")
    with host.file.open("ab") as disk:
        disk.truncate(128 * 2**20)
    shell("losetup", "--set-capacity", host.disk)
    grown = host.run(host.volume())
    if "Permission denied to resize filesystem" in grown.stdout:
        pytest.skip("it tried to: without CAP_SYS_RESOURCE, the kernel grows no mounted file system")
    assert "changed=1" in recap(grown)
    assert int(shell("stat", "--file-system", "--format=%b", str(host.path))) * 4096 > 100 * 2**20
    assert (host.path / "file").read_text() == "data"
    assert "changed=0" in recap(host.run(host.volume()))


def swap(disk: str) -> None:
    """Swap space."""
    shell("mkswap", disk)


def another_file_system(disk: str) -> None:
    """ext2."""
    shell("mke2fs", "-q", "-t", "ext2", disk)


def partition_table(disk: str) -> None:
    """An MBR with one Linux partition."""
    entry = bytes([0, 0, 2, 0, 0x83, 0, 2, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    with Path(disk).open("r+b") as stream:
        stream.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")


@pytest.mark.parametrize(("fill", "content"), [(swap, "swap"), (another_file_system, "ext2"), (partition_table, "dos")])
def test_a_disk_with_other_content_is_refused(fill: Callable[[str], None], content: str, host: Host) -> None:
    fill(host.disk)
    before = host.file.read_bytes()
    said = refusal(host.run(host.volume()))
    assert "the volume data of storage-1" in said
    assert f"holds {content}" in said
    assert "only a blank volume is formatted" in said
    assert host.file.read_bytes() == before
    assert host.mounted_on() == []


def test_files_that_the_volume_would_hide_are_refused(host: Host) -> None:
    host.path.mkdir(parents=True)
    (host.path / "PG_VERSION").write_text("15")
    said = refusal(host.run(host.volume()))
    assert "has files: PG_VERSION, which the volume data would hide" in said
    assert host.mounted_on() == []


def test_a_file_system_that_is_mounted_there_is_refused(host: Host) -> None:
    host.path.mkdir(parents=True)
    shell("mount", "--types", "tmpfs", "tmpfs", str(host.path))
    try:
        assert "is the mount point of another file system" in refusal(host.run(host.volume()))
    finally:
        shell("umount", str(host.path))


def test_a_file_system_without_quotas_is_refused_where_folders_are_limited(host: Host) -> None:
    shell("mke2fs", "-q", "-t", "ext4", host.disk)
    said = refusal(host.run({**host.volume(), "project_quotas": True}))
    assert "the volume data of storage-1 has an export that limits its folders" in said
    assert f"tune2fs -O project,quota -Q prjquota {host.disk}" in said
    assert host.mounted_on() == []
    # made by hand: the role gets as far as the kernel does
    shell("tune2fs", "-O", "project,quota", "-Q", "prjquota", host.disk)
    assert "has an export that limits its folders" not in host.run({**host.volume(), "project_quotas": True}).stdout


def test_a_missing_disk_is_named(host: Host) -> None:
    other = str(uuid.uuid4())
    assert f"storage-1 has no disk of the volume data ({other})" in refusal(host.run(host.volume(identifier=other)))
    said = refusal(host.run(host.volume(identifier="")))
    assert "the volumes data of storage-1 are not attached" in said
    assert host.mounted_on() == []
