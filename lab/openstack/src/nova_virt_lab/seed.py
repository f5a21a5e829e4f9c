"""Files that an instance has before it boots: its hardware, its names, and nova's config drive."""

from __future__ import annotations

import hashlib
import io
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nova.virt.lab import configdrive
from nova.virt.lab.options import Device

DEVICES = "etc/strata/pci/devices"
"""Link to the directory with one directory per PCI device, its files as in /sys/bus/pci/devices.

A link, because an archive can replace it but cannot empty a directory: a resized instance may have other devices.
"""


@dataclass(frozen=True)
class Seed:
    """What goes into the archive.

    Args:
        hostname: the instance's.
        addresses: of its interfaces.
        name_servers: for resolv.conf.
        devices: PCI devices that nova claimed for it.
        config_drive: path on nova's config drive → content; cloud-init does the rest with it.
    """

    hostname: str
    addresses: Sequence[str]
    name_servers: Sequence[str]
    devices: Sequence[Device]
    config_drive: Mapping[str, bytes] = field(default_factory=dict)

    def archive(self, *, first: bool = True) -> bytes:
        """The files as a tar archive for the container's root.

        Args:
            first: whether the root is the image's; else only what nova may have changed since comes into it, and names
                that others added to /etc/hosts stay.
        """
        writer = _Writer()
        addresses = ",".join(device.address for device in self.devices)
        directory = f"{DEVICES}-{hashlib.sha256(addresses.encode()).hexdigest()[:8]}"
        writer.directory(directory)
        for device in self.devices:
            for name, value in _attributes(device):
                writer.file(f"{directory}/{device.address}/{name}", value)
        writer.link(DEVICES, directory.rpartition("/")[2])
        if first:
            hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
            hosts += [f"{address} {self.hostname}" for address in self.addresses[:1]]
            writer.file("etc/hosts", "".join(f"{line}\n" for line in hosts))
            writer.file("etc/resolv.conf", "".join(f"nameserver {server}\n" for server in self.name_servers))
        for path, content in self.config_drive.items():
            # user data may hold secrets
            writer.file(f"{configdrive.DIRECTORY}/{path.lstrip('/')}", content, 0o600)
        return writer.close()


def _attributes(device: Device) -> Iterable[tuple[str, str]]:
    yield "vendor", f"0x{device.vendor_id}\n"
    yield "device", f"0x{device.product_id}\n"
    yield "class", f"0x{device.class_code}\n"
    yield "numa_node", f"{device.numa_node}\n"


class _Writer:
    """A tar archive whose parent directories come by themselves where the image may not have them."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115  # closed by close()
        # directories of every image: naming them would reset their modes
        self._known = {"etc", "var", "var/lib"}
        self._time = int(time.time())

    def directory(self, path: str, mode: int = 0o755) -> None:
        parent = path.rpartition("/")[0]
        if path in self._known or not path:
            return
        self.directory(parent)
        self._known.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, self._time
        self._tar.addfile(entry)

    def file(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        self.directory(path.rpartition("/")[0])
        data = content.encode() if isinstance(content, str) else content
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode, entry.mtime = len(data), mode, self._time
        self._tar.addfile(entry, io.BytesIO(data))

    def link(self, path: str, target: str) -> None:
        self.directory(path.rpartition("/")[0])
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname, entry.mtime = tarfile.SYMTYPE, target, self._time
        self._tar.addfile(entry)

    def close(self) -> bytes:
        """The archive up to its end, two blocks of zeros, and nothing behind it.

        podman's reader leaves at the end and not at the last byte; what tarfile pads an archive with may then meet a
        closed pipe and fail the whole copy (buildah issue 6573): one of fifty instances at once.
        """
        end = self._tar.offset + 2 * tarfile.BLOCKSIZE
        self._tar.close()
        return self._buffer.getvalue()[:end]
