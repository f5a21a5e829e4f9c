"""What a machine must have before the lab touches it.

Only the standard library is used and nothing of Strata: scripts/lab runs this file with the system's Python
(`python3 -I lab/src/strata_lab/preflight.py`) before anything is installed, and `strata doctor` calls
machine_problems().
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

DISTRIBUTION = ("debian", "12")
MACHINE = "x86_64"
LEAST_PYTHON = (3, 11)
LEAST_PROCESSORS = 2
LEAST_MEMORY_GIB = 12
# Measured: 24 while the last tools are built, module and build caches 10 of it; 14 stay when the lab is destroyed; a
# running lab has 8 more.
COLD_DISK_GIB = 25
WARM_DISK_GIB = 9
BEGUN_DISK_GIB = 3  # a run was interrupted, or a lab is there: what tests and later runs write
CONTAINERS = Path("/var/lib/containers")
CGROUP_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}

_GIB = 1 << 30
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Problem:
    """Something that this machine is missing.

    Args:
        message: what was found and what is needed.
        fix: what to do about it.
    """

    message: str
    fix: str


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _fields(text: str, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in text.splitlines() if separator in line)
    return {key.strip(): value.strip().strip('"') for key, _, value in pairs}


def _python() -> list[Problem]:
    if sys.version_info >= LEAST_PYTHON:
        return []
    least = ".".join(map(str, LEAST_PYTHON))
    version = platform.python_version()
    return [
        Problem(f"Python is {version}, {least} or newer is needed", "apt-get install python3, and put it first on PATH")
    ]


def _distribution() -> list[Problem]:
    release = _fields(_read("/etc/os-release"), "=")
    if (release.get("ID"), release.get("VERSION_ID")) == DISTRIBUTION:
        return []
    name = release.get("PRETTY_NAME") or "a system without /etc/os-release"
    return [
        Problem(
            f"this is {name}; the lab runs on Debian 12 (bookworm)",
            "use a Debian 12 machine or virtual machine; a site that is not a lab can be driven from anywhere",
        )
    ]


def _machine() -> list[Problem]:
    problems = []
    if platform.machine() != MACHINE:
        problems.append(
            Problem(f"the processor is {platform.machine()}, the lab needs {MACHINE}", "use an x86_64 machine")
        )
    processors = len(os.sched_getaffinity(0))
    if processors < LEAST_PROCESSORS:
        problems.append(
            Problem(f"{processors} processor, the lab needs {LEAST_PROCESSORS}", "give the machine another processor")
        )
    total = int(_fields(_read("/proc/meminfo"), ":").get("MemTotal", "0 kB").split()[0]) * 1024
    # The kernel keeps some for itself: a machine sold with 12 GiB shows a little less.
    if total < (LEAST_MEMORY_GIB - 0.75) * _GIB:
        problems.append(
            Problem(
                f"{total / _GIB:.1f} GiB of memory, the lab needs {LEAST_MEMORY_GIB} GiB",
                f"give the machine {LEAST_MEMORY_GIB} GiB",
            )
        )
    return problems


def _privileges() -> list[Problem]:
    if os.geteuid() != 0:
        return [Problem(f"the user is not root (uid {os.geteuid()})", "run it as root, for example: sudo -i")]
    held = int(_fields(_read("/proc/self/status"), ":").get("CapEff", "0"), 16)
    missing = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
    if not missing:
        return []
    return [
        Problem(
            f"root has no {', '.join(missing)} here, so it cannot make containers",
            "use a machine or virtual machine, or a container started with --privileged",
        )
    ]


def _kernel() -> list[Problem]:
    problems = []
    filesystems = {line.split()[-1] for line in _read("/proc/filesystems").splitlines() if line.split()}
    modules = Path("/lib/modules") / platform.release()
    if "overlay" not in filesystems and "/overlay.ko" not in _read(str(modules / "modules.dep")):
        problems.append(Problem("the kernel has no overlayfs", "use a kernel with CONFIG_OVERLAY_FS"))
    unified = _read("/sys/fs/cgroup/cgroup.controllers").split()
    lines = [line.split() for line in _read("/proc/cgroups").splitlines() if line and not line.startswith("#")]
    legacy = [fields[0] for fields in lines if fields[-1] == "1"]
    missing = [name for name in CGROUP_CONTROLLERS if name not in unified and name not in legacy]
    if missing:
        problems.append(
            Problem(
                f"the kernel has no cgroup controller {', '.join(missing)}",
                "boot with cgroup_enable=memory, or use a kernel with these controllers",
            )
        )
    absent = [name for name in NAMESPACES if not Path(f"/proc/self/ns/{name}").exists()]
    if absent:
        problems.append(
            Problem(f"the kernel has no {', '.join(absent)} namespaces", "use a kernel with CONFIG_NAMESPACES")
        )
    if not Path("/dev/kmsg").exists():
        problems.append(Problem("/dev/kmsg is missing", "mknod /dev/kmsg c 1 11, or start the container with it"))
    return problems


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def _create_link(kind: str) -> int:
    """Creates a network device of a kind in this network namespace; returns 0 or the kernel's errno."""
    newlink, request_ack_create_exclusive, ifname, linkinfo, info_kind = 16, 0x605, 3, 18, 1
    body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)
    body += _attribute(ifname, f"probe-{kind[:8]}\0".encode()) + _attribute(
        linkinfo, _attribute(info_kind, kind.encode() + b"\0")
    )
    message = struct.pack("=IHHII", 16 + len(body), newlink, request_ack_create_exclusive, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(message)
        answer = netlink.recv(4096)
    return -int(struct.unpack_from("=i", answer, 16)[0])


def _probe_network(kinds: tuple[str, ...]) -> list[str]:
    """The kinds of network devices that the kernel cannot make.

    Tried in a network namespace of a child process, which is gone with it: the host's network is not touched.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        failed = list(kinds)
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) == 0:
                failed = [kind for kind in kinds if _create_link(kind) != 0]
        except OSError:
            failed = list(kinds)
        finally:
            os.write(writer, " ".join(failed).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read().decode()
    os.waitpid(child, 0)
    return answer.split()


def _network() -> list[Problem]:
    problems = []
    if missing := _probe_network(("bridge", "veth")):
        problems.append(
            Problem(
                f"the kernel cannot make network devices of the kind {', '.join(missing)}",
                "use a kernel with CONFIG_BRIDGE and CONFIG_VETH, or load their modules",
            )
        )
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close()  # NETLINK_NETFILTER
    except OSError:
        problems.append(
            Problem("the kernel has no netfilter", "use a kernel with CONFIG_NETFILTER and CONFIG_NF_TABLES")
        )
    return problems


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def cache_directory() -> Path:
    """As strata.site.paths.cache_directory(), which cannot be imported here."""
    if value := os.environ.get("STRATA_CACHE_DIR"):
        return Path(value).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strata"


def _needed_gib(cache: Path) -> int:
    """What a run still needs; one that was interrupted passed this check at its beginning, and has used much of it."""
    containers = _read(str(CONTAINERS / "storage/overlay-containers/containers.json"))
    if (cache / "go" / "caches").exists() or re.search(r'"strata-[^"]+-controller"', containers):
        return BEGUN_DISK_GIB
    built = any((cache / "tools").glob("kube-apiserver/*/kube-apiserver"))
    return WARM_DISK_GIB if built else COLD_DISK_GIB


def _disk() -> list[Problem]:
    cache = cache_directory()
    needed = _needed_gib(cache)
    places: dict[int, list[Path]] = {}
    for path in (cache, CONTAINERS):
        places.setdefault(_existing(path).stat().st_dev, []).append(path)
    problems = []
    for paths in places.values():
        free = shutil.disk_usage(_existing(paths[0])).free
        if free < needed * _GIB:
            names = " and ".join(map(str, paths))
            problems.append(
                Problem(
                    f"{free / _GIB:.1f} GiB free for {names}, {needed} GiB are needed",
                    "free some space, or set STRATA_CACHE_DIR to a directory on a larger disk",
                )
            )
    return problems


def machine_problems() -> list[Problem]:
    """Everything that this machine is missing, so that all can be fixed at once."""
    problems = [*_python(), *_distribution(), *_machine(), *_privileges(), *_kernel(), *_disk()]
    if os.geteuid() == 0 and not _privileges():
        problems += _network()
    return problems


def main() -> int:
    """Prints each problem with its fix; returns the exit status."""
    problems = machine_problems()
    for problem in problems:
        print(f"✗ {problem.message}\n  fix: {problem.fix}", file=sys.stderr)
    if problems:
        print("Nothing has been installed or changed.", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
