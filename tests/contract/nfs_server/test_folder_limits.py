"""The role's program, units and file systems on Debian's kernel, in QEMU: containers, and the lab, have no quotas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from jinja2 import Template

from strata.images.apt_sources import CODENAMES, sources_for
from strata.locks import file_lock
from strata.progress import Silent
from strata.roles import DIRECTORY
from strata.site.paths import cache_directory

pytestmark = pytest.mark.nightly

RELEASE = "12"
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
"""What the test needs, and Debian's packages with it."""
PACKAGES = ("linux-image-cloud-amd64", "systemd-sysv", "udev", "python3", "quota", "e2fsprogs", "xfsprogs",
            "nfs-kernel-server")  # fmt: skip
ROLE = DIRECTORY / "nfs_server"
EXPORTS = [{"path": f"/srv/{name}/homes", "limit": 10240} for name in ("ext4", "xfs", "old")]
SECONDS = 900.0
"""Until the machine has ended: 116 s on 2 busy processors, and 90 s more to make Debian once."""
UNIT = """\
[Unit]
After=local-fs.target
[Service]
Type=oneshot
ExecStart=/root/guest.sh
[Install]
WantedBy=multi-user.target
"""


def debian() -> Path:
    """Directory with Debian, its kernel and what an NFS server has; made once."""
    directory = cache_directory() / "tests" / f"nfs-server-debian-{RELEASE}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(directory.with_suffix(".lock"), Silent(), "another test run to make Debian's root file system"):
        if not directory.exists():
            partial, sources = directory.with_suffix(".partial"), directory.with_suffix(".list")
            shutil.rmtree(partial, ignore_errors=True)
            sources.write_text(sources_for(RELEASE))
            options = ["--variant=minbase", "--mode=root", "--format=directory", f"--include={','.join(PACKAGES)}"]
            options += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=force-unsafe-io"]
            options += ['--aptopt=APT::Install-Recommends "false"']
            command = ["mmdebstrap", "--quiet", *options, CODENAMES[RELEASE], str(partial), str(sources)]
            subprocess.run(command, check=True)
            partial.rename(directory)
    return directory


def disk(file: Path, mebibytes: int) -> Path:
    """A blank one."""
    with file.open("wb") as content:
        content.truncate(mebibytes << 20)
    return file


def system_disk(directory: Path) -> Path:
    """Debian with the role's files, and the guest's part of the test, which runs when it has started."""
    files = {
        f"usr/local/lib/strata-nfs-server/{name}": content
        for name, content in {
            "folder_limits.py": (ROLE / "files" / "folder_limits.py").read_text(),
            "folder-limits.json": json.dumps(EXPORTS),
        }.items()
    }
    files |= {
        f"etc/systemd/system/{unit.name}": unit.read_text() for unit in (ROLE / "files").glob("strata-folder-limits.*")
    }
    path_unit = Template((ROLE / "templates" / "strata-folder-limits.path.j2").read_text())
    files["etc/systemd/system/strata-folder-limits.path"] = path_unit.render(_nfs_server_limited=EXPORTS)
    files |= {
        "etc/systemd/system/guest.service": UNIT,
        "root/guest.sh": Path(__file__).with_name("guest.sh").read_text(),
    }
    system, commands = disk(directory / "system", 1500), []
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(debian()), str(system)], check=True)
    made: set[str] = set()
    for number, (name, content) in enumerate(files.items()):
        source = directory / f"file-{number}"
        source.write_text(content)
        made.update(str(parent) for parent in Path(name).parents)
        commands += [f"write {source} {name}", f"set_inode_field {name} mode 0100755"]
    wants = "etc/systemd/system/multi-user.target.wants"
    commands = [f"mkdir {name}" for name in sorted({*made, wants} - {"."})] + commands
    commands.append(f"symlink {wants}/guest.service ../guest.service")
    # those that exist are reported, and stay
    done = subprocess.run(
        ["debugfs", "-w", "-f", "-", str(system)], input="\n".join(commands), text=True, capture_output=True, check=True
    )
    assert "write: " not in done.stderr, done.stderr
    return system


def console(directory: Path) -> str:
    """What the machine printed until it ended; it has three more disks."""
    disks = [system_disk(directory), *(disk(directory / name, 400) for name in ("ext4", "xfs", "old"))]
    printed = directory / "console"
    options = {
        "accel": "tcg",  # KVM in a virtual machine may be there, and lack instructions
        "m": "1024",
        "display": "none",
        "nic": "none",
        "serial": f"file:{printed}",
        "kernel": str(debian() / "vmlinuz"),
        "initrd": str(debian() / "initrd.img"),
        # without a login there, which would take the console over
        "append": "root=/dev/vda rw console=ttyS0 quiet systemd.mask=serial-getty@ttyS0.service",
    }
    command = [
        "qemu-system-x86_64",
        "-no-reboot",
        *(part for key, value in options.items() for part in (f"-{key}", value)),
    ]
    command += [part for disk in disks for part in ("-drive", f"file={disk},format=raw,if=virtio")]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, timeout=SECONDS, check=True)
    return printed.read_text(errors="replace").replace("\r", "")


def test_each_folder_is_limited(tmp_path: Path) -> None:
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Debian's packages {', '.join(sorted(missing)) or 'that it has'}")
    text = console(tmp_path)
    lines = [line.removeprefix("RESULT ").partition(" ") for line in text.splitlines() if line.startswith("RESULT ")]
    values = {name: value for name, _, value in lines}
    assert "end" in values, text
    assert values.pop("old_refused") != "0", "an ext4 without quotas is not mounted with prjquota"
    # larger than the limit, with a link and a pipe in it; the program repeats an interrupted run, and is done then
    assert values.pop("again") == "/srv/ext4/homes/before: limited", text
    assert values.pop("repeated") == ""
    assert values.pop("before") == "10240 0 EDQUOT"
    # by the path unit alone: size of the folder in KiB; MiB of 20, and of 5 in another folder
    assert values.pop("nfs") == "mounted", text
    for homes, error in (("/mnt/homes", "EDQUOT"), ("/srv/old/homes", "EDQUOT"), ("/srv/xfs/homes", "ENOSPC")):
        # the last of 10 MiB may be in memory before it is refused
        assert re.fullmatch(rf"10240 (9|10) {error} 5 none", values.pop(homes)), text
    assert values.pop("deleted") == "5 none"
    assert int(values.pop("files")) < 640, "a file for each 16 KiB"
    size, used = values.pop("new_ada").split()
    assert size == "10240"
    assert int(used) < 100, "an archived home counts for its former owner"
    assert values.pop("raised") == "30720 30720 20 none"
    assert values.pop("lifted") == "40 none"
    assert "failed" not in values.pop("failed").split(), text
