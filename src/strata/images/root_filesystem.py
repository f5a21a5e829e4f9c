"""What Debian root filesystems consist of, and the podman images that they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

TRUST_HOST = Path(__file__).parent / "files" / "trust-host.sh"
"""Script for a root filesystem: trusts the deployment host's CAs, so that registries behind a proxy are reachable."""
_POD = ("python3", "ca-certificates", "netbase")
_KUBE_PROXY = ("iptables", "nftables")  # kube-proxy runs nft
_POD_PACKAGES = {"12": (*_POD, *_KUBE_PROXY), "13": _POD}
OPTIONS = (
    "--variant=minbase",
    "--mode=root",
    "--format=tar",
    '--aptopt=Acquire::Languages "none"',
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=force-unsafe-io",
)
"""Of mmdebstrap."""
DIGEST_DIGITS = 12
HOST_CA = Path("/etc/ssl/certs/ca-certificates.crt")
"""The certificate authorities that the deployment host trusts."""


@dataclass(frozen=True)
class RootFilesystem:
    """What a root filesystem consists of; the same description is the same image.

    Args:
        name: short name, part of the image's.
        release: Debian release, "12" or "13".
        packages: Debian packages beyond mmdebstrap's minbase.
        customize: shell scripts that run inside before packing, in this order.
        files: what the scripts find in /tmp, by their names; each is in a folder named after the content, as tools are.
    """

    name: str
    release: str
    packages: tuple[str, ...]
    customize: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Names the content: packages, scripts, files and the host's certificate authorities."""
        content = hashlib.sha256(repr((self.name, self.release, sorted(set(self.packages)), OPTIONS)).encode())
        for script in self.customize:
            content.update(script.read_bytes())
        for file in self.files:  # a site is planned before its tools are built
            content.update(f"{file.parent.name}/{file.name}".encode())
        if HOST_CA.exists():
            content.update(HOST_CA.read_bytes())
        return content.hexdigest()[:DIGEST_DIGITS]

    @property
    def reference(self) -> str:
        """The podman image."""
        return f"localhost/strata-{self.name}:{self.digest()}"


@dataclass(frozen=True)
class PodBase:
    """A slim Debian that pod images start from.

    Args:
        reference: of the podman image.
        identifier: podman's, of its content.
    """

    reference: str
    identifier: str


def pod_filesystem(release: str) -> RootFilesystem:
    """The root filesystem of the pod base of a Debian release.

    Args:
        release: "12" or "13".
    """
    return RootFilesystem(f"pod-base-{release}", release, _POD_PACKAGES[release], (TRUST_HOST,))
