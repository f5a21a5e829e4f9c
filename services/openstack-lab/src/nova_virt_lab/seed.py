"""Files that an instance has before its first boot: what cloud-init and the hardware would give it."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nova.virt.lab.options import Device

DEVICES = "etc/strata/pci/devices"
"""Directory with one directory per PCI device, its files as in /sys/bus/pci/devices."""


@dataclass(frozen=True)
class Seed:
    """What goes into the archive.

    Args:
        hostname: the instance's.
        machine_id: 32 hexadecimal digits.
        addresses: of its interfaces.
        name_servers: for resolv.conf.
        devices: PCI devices that nova claimed for it.
        login_user: gets the key beside root.
        public_key: of the key pair, None for none.
        user_data: None for none.
        files: further files, path to content.
    """

    hostname: str
    machine_id: str
    addresses: Sequence[str]
    name_servers: Sequence[str]
    devices: Sequence[Device]
    login_user: str
    public_key: str | None = None
    user_data: bytes | None = None
    files: Mapping[str, bytes] | None = None

    def archive(self) -> bytes:
        """The files as a tar archive for the container's root."""
        writer = _Writer()
        writer.directory(DEVICES)
        for device in self.devices:
            for name, value in _attributes(device):
                writer.file(f"{DEVICES}/{device.address}/{name}", value)
        writer.file("etc/machine-id", f"{self.machine_id}\n")
        writer.file("etc/hostname", f"{self.hostname}\n")
        hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        hosts += [f"{address} {self.hostname}" for address in self.addresses[:1]]
        writer.file("etc/hosts", "".join(f"{line}\n" for line in hosts))
        writer.file("etc/resolv.conf", "".join(f"nameserver {server}\n" for server in self.name_servers))
        if self.public_key:
            key = self.public_key.strip() + "\n"
            writer.directory("root/.ssh", 0o700)
            writer.file("root/.ssh/authorized_keys", key, 0o600)
            # owned by root, which sshd accepts; readable, since sshd reads it as the user
            writer.file(f"home/{self.login_user}/.ssh/authorized_keys", key)
        if self.user_data:
            writer.directory("var/lib/cloud/seed", 0o700)
            writer.file("var/lib/cloud/seed/user-data", self.user_data, 0o600)
        for path, content in (self.files or {}).items():
            writer.file(path.lstrip("/"), content)
        return writer.close()


def _attributes(device: Device) -> Iterable[tuple[str, str]]:
    yield "vendor", f"0x{device.vendor_id}\n"
    yield "device", f"0x{device.product_id}\n"
    yield "class", f"0x{device.class_code}\n"
    yield "numa_node", f"{device.numa_node}\n"


class _Writer:
    """A tar archive whose parent directories come by themselves where the image may lack them."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115  # closed by close()
        # directories of every image: naming them would reset their modes
        self._known = {"etc", "root", "home", "var", "var/lib"}
        self._time = int(time.time())

    def directory(self, path: str, mode: int = 0o755) -> None:
        parent = path.rpartition("/")[0]
        if path in self._known or not path:
            return
        self.directory(parent)
        self._known.add(path)
        if path.count("/") == 1 and path.startswith("home/"):
            return
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, self._time
        self._tar.addfile(entry)

    def file(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        self.directory(path.rpartition("/")[0])
        data = content.encode() if isinstance(content, str) else content
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode, entry.mtime = len(data), mode, self._time
        self._tar.addfile(entry, io.BytesIO(data))

    def close(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()
