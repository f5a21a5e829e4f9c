"""What a host has none left of: disk space, memory, a port that one of its services needs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from strata.roles import roles as all_roles

FULL_BYTES = 1 << 20
"""A file system with less than this left counts as full."""

SCRIPT = r"""
df --local --block-size=1 --output=avail,size,iavail,itotal,target -x squashfs -x iso9660 2>/dev/null |
  sed 's/^/space /'
ss --no-header --listening --tcp --numeric --processes | while read -r _ _ _ address _ users; do
  p=${users#*pid=}; [ "$p" = "$users" ] && continue
  p=${p%%[!0-9]*}; n=${users#*\"}
  echo "port ${address##*:} $p ${n%%\"*} $(ps -o unit= -p "$p")"
done
c=$(sed -n 's|.*/overlay-containers/\([0-9a-f]\{64\}\)/.*|\1|p' /proc/self/mountinfo | head -n 1)
[ -n "$c" ] && k="oom_memcg=[^,]*-$c" || k=global_oom
dmesg 2>/dev/null | sed -n "s|.*oom-kill:.*$k,task_memcg=[^,]*/\([^,/]*\),task=\([^,]*\),.*|killed \1 \2|p"
"""
"""Prints what `parse` reads; for a POSIX shell as root. The log of the kernel is that of the whole machine: of a lab's
instance only what ended at its own limit counts."""

_INNER = re.compile(r"/(proc|sys|dev|run/containerd|var/lib/kubelet/pods|var/lib/containerd)/")


@dataclass(frozen=True)
class FullFileSystem:
    """A file system without space, or without room for names.

    Args:
        mount: where it is.
        free: bytes left.
        size: bytes in all.
        names: whether it is the names (inodes) that are used up.
    """

    mount: str
    free: int
    size: int
    names: bool = False

    def __str__(self) -> str:
        if self.names:
            return f"{self.mount} (no more files can be made, all inodes are used)"
        return f"{self.mount} ({_size(self.free)} of {_size(self.size)} free)"


@dataclass(frozen=True)
class TakenPort:
    """A port that another process than the role's unit has.

    Args:
        port: TCP.
        unit: that needs it.
        process: name of the one that has it.
        pid: its number.
        holder: the unit that it belongs to; empty where it belongs to none.
    """

    port: int
    unit: str
    process: str
    pid: int
    holder: str

    def __str__(self) -> str:
        of = f" of {self.holder}" if self.holder else ""
        return f"port {self.port}, which {self.unit} needs, is taken by {self.process} (process {self.pid}{of})"


@dataclass(frozen=True)
class ResourceExhaustion:
    """What one host ran out of.

    Args:
        full: file systems.
        taken: ports.
        killed: units that the kernel ended a process of because memory ran out; still in its log, the last one last.
    """

    full: tuple[FullFileSystem, ...] = ()
    taken: tuple[TakenPort, ...] = ()
    killed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether something is exhausted now."""
        return bool(self.full or self.taken)


def _size(number: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number} {unit}"
        number //= 1024
    return f"{number} GiB"


def parse(roles: Iterable[str], lines: Iterable[str]) -> ResourceExhaustion:
    """What SCRIPT printed.

    Args:
        roles: of the host, which determine the owner of each port.
        lines: its output; others are passed over.
    """
    full: list[FullFileSystem] = []
    listening: dict[int, tuple[int, str, str]] = {}
    killed: list[str] = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind == "space" and len(words) >= 5 and words[0].isdigit():
            full += _full(words)
        elif kind == "port" and len(words) >= 3 and words[0].isdigit():
            unit = words[3] if len(words) > 3 else "-"
            listening[int(words[0])] = (int(words[1]), words[2], "" if unit == "-" else unit)
        elif kind == "killed" and len(words) >= 2:
            # a process that systemd did not start is known by its own name
            killed.append(words[0] if words[0].endswith((".service", ".scope")) else words[1])
    return ResourceExhaustion(tuple(full), tuple(_taken(roles, listening)), tuple(killed))


def _full(words: list[str]) -> Iterator[FullFileSystem]:
    free, size, names, all_names = (int(word) if word.isdigit() else 0 for word in words[:4])
    mount = words[4]
    if size == 0 or _INNER.match(f"{mount}/"):
        return  # the kernel's own, and what pods have of the host's
    if free < min(FULL_BYTES, size // 20):
        yield FullFileSystem(mount, free, size)
    elif all_names and not names:
        yield FullFileSystem(mount, free, size, names=True)


def _taken(roles: Iterable[str], listening: Mapping[int, tuple[int, str, str]]) -> Iterator[TakenPort]:
    needed = ((port.unit, port.port) for role in roles for port in all_roles()[role].ports if port.when is None)
    for unit, port in dict.fromkeys(needed):
        if unit is not None and port in listening:
            pid, process, holder = listening[port]
            if not fnmatch.fnmatch(holder, f"{unit}.service"):
                yield TakenPort(port, unit, process, pid, holder)
