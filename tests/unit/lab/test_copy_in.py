"""Archives for podman: what is in them, and that they end where podman stops reading."""

from __future__ import annotations

import io
import tarfile

from strata_lab.copy_in import archive

FILES = {"root/.ssh/authorized_keys": "ssh-ed25519 AAAA\n", "etc/strata/pci/devices/0000:3b:00.0/vendor": "0x10de\n"}


def test_files_and_their_directories_have_their_modes() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(FILES))) as tar:
        modes = {member.name: member.mode for member in tar}
        contents = {name: tar.extractfile(name) for name in FILES}
        assert {name: stream.read().decode() for name, stream in contents.items() if stream} == FILES
    assert modes["root/.ssh"] == 0o700
    assert modes["root/.ssh/authorized_keys"] == 0o600
    assert modes["etc/strata/pci/devices"] == 0o755
    assert modes["etc/strata/pci/devices/0000:3b:00.0/vendor"] == 0o644


def test_nothing_follows_the_end() -> None:
    content = archive(FILES)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    assert content[end:] == bytes(2 * tarfile.BLOCKSIZE), "podman stops reading before the last byte"
