"""Takes from a running site what it needs, for tests: space on a disk, an image in its registry."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.images.registry_client import RegistryClient
from strata.inventory.clients import OPERATOR_SECRET
from strata.site.context import SiteContext
from strata.site.host_list import address_of

from .commands import strata, strata_json

if TYPE_CHECKING:
    from testinfra.host import Host

STORAGE = "/var/lib/docker-registry/docker/registry/v2"
PUSH_REGISTRY = "docker-registry-push"
REGISTRIES = f"docker-registry {PUSH_REGISTRY}"
"""The registry's units: each remembers on its own which layers the storage holds."""
FILLER = ".filler"


def run(host: Host, script: str) -> str:
    """Output of a script on a host, which must succeed."""
    done = host.run("sh -eu -c %s", script)
    assert done.rc == 0, f"{script}: {done.stderr}"
    return str(done.stdout)


def journal_cursor(host: Host) -> str:
    """Where a host's journal ends now, for `--after-cursor`."""
    _, separator, cursor = run(host, "journalctl --lines 1 --show-cursor --output=cat").rpartition("-- cursor: ")
    assert separator
    return cursor.strip()


@contextmanager
def small_disk(host: Host, directory: str, mebibytes: int) -> Iterator[None]:
    """Meanwhile the directory is a file system of this size, full, with all that was in it before.

    What is written there goes to the small file system, and what was there stays as it is; afterwards it is as before.
    """
    place = f"/run/strata-test-{uuid.uuid4().hex[:8]}"
    run(
        host,
        f"mkdir {place}; mount -t tmpfs -o size={mebibytes}m,mode=755 none {place}; mkdir {place}/upper {place}/work;"
        f"chown --reference={directory} {place}/upper; chmod --reference={directory} {place}/upper;"
        f"mount -t overlay -o lowerdir={directory},upperdir={place}/upper,workdir={place}/work overlay {directory};"
        f"umount -l {place}; rmdir {place}",
    )
    try:
        fill(host, directory)
        yield
    finally:
        # a service may still have a file open there
        run(host, f"umount {directory} || umount -l {directory}")


def fill(host: Host, directory: str) -> None:
    """Takes all the space that is left."""
    # appended: what is there stays
    done = host.run(f"dd if=/dev/zero of='{directory}/{FILLER}' bs=4k oflag=append conv=notrunc")
    assert "No space left on device" in done.stderr, done.stderr


@contextmanager
def full(host: Host, directory: str) -> Iterator[None]:
    """Meanwhile, or until `make_space`, no space is left on the ext4 that is mounted there; hardly any is written."""
    file = f"{directory}/{FILLER}"
    available = f"$(df --block-size=1 --output=avail '{directory}' | tail -n 1)"
    try:
        # how many blocks the list of its extents takes depends on the fragments that are free
        run(host, f"fallocate --length $(({available} - (1 << 20))) '{file}'")
        fill(host, directory)
        yield
    finally:
        run(host, f"rm -f '{file}'")


def make_space(host: Host, directory: str) -> None:
    """Gives it back."""
    run(host, f"rm '{directory}/{FILLER}'")


@dataclass
class Failed:
    """How a command on the site ended."""

    status: int
    error: str


def up(context: SiteContext, *options: str) -> Failed:
    """`strata up` as an operator sees it."""
    done = strata("up", context.site_file, "--no-verify", *options, seconds=600)
    assert "Traceback" not in done.stderr
    return Failed(done.returncode, done.stderr)


def registry(context: SiteContext) -> RegistryClient:
    """The site's registry."""
    address = address_of("registry", context.site, context.cloud_outputs)
    assert address is not None
    return RegistryClient(
        address, f"registry.{context.site.domain}", context.paths.ca_file, context.secrets.get(OPERATOR_SECRET)
    )


def image(context: SiteContext, name: str) -> tuple[str, str]:
    """Repository and digest of one of the site's images, by its short name."""
    outputs = context.image_outputs
    assert outputs is not None
    built = outputs.images[name]
    return built.repository.partition("/")[2], built.digest


def remove_image(context: SiteContext, host: Host, name: str) -> None:
    """Takes an image with its layers out of the registry's storage, as if it had never been pushed."""
    repository, _ = image(context, name)
    place = f"{STORAGE}/repositories/{repository}"
    layers = run(host, f"ls {place}/_layers/sha256 {place}/_manifests/revisions/sha256").split()
    blobs = [f"{STORAGE}/blobs/sha256/{layer[:2]}/{layer}" for layer in layers if re.fullmatch(r"\w{64}", layer)]
    assert len(blobs) >= 2
    run(host, f"rm -r {place} {' '.join(blobs)}; systemctl restart {REGISTRIES}")


def kill_in_upload(context: SiteContext, host: Host, name: str) -> None:
    """Kills the registry that takes pushes as soon as it has the beginning of a layer of an image.

    It waits on the host: a small image is there before `up` states that it pushes it.
    """
    repository, _ = image(context, name)
    uploads = f"{STORAGE}/repositories/{repository}/_uploads"
    kill = f"systemctl kill --signal=KILL {PUSH_REGISTRY}"
    run(host, f"timeout 300 sh -c 'until ls {uploads}/*/data; do sleep 0.01; done; {kill}' 2> /dev/null")


def is_whole(context: SiteContext, host: Host, name: str) -> bool:
    """Whether the registry has the image that the site's nodes ask for, with every byte of it."""
    repository, digest = image(context, name)
    script = (
        "import hashlib, json, pathlib, sys\n"
        f"blobs = pathlib.Path('{STORAGE}/blobs/sha256')\n"
        "def read(digest):\n"
        "    content = (blobs / digest[7:9] / digest[7:] / 'data').read_bytes()\n"
        "    assert 'sha256:' + hashlib.sha256(content).hexdigest() == digest, digest\n"
        "    return content\n"
        f"manifest = json.loads(read('{digest}'))\n"
        "[read(part['digest']) for part in (manifest['config'], *manifest['layers'])]\n"
    )
    with registry(context) as client:
        assert client.digest(repository, digest) == digest
    done = host.run("python3 -c %s", script)
    assert done.rc == 0, done.stderr
    return True


def notes(context: SiteContext) -> tuple[list[dict[str, Any]], list[str]]:
    """What `strata status --no-drift` finds unhealthy, and what it notes."""
    _, answer, _ = strata_json(context, "status", "--no-drift")
    return [o for o in answer["objects"] if o["found"] != o["wanted"]], answer["notes"]
