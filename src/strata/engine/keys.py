"""The site's SSH key pair."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from strata.site.outputs import write_private
from strata.site.paths import SitePaths


def ensure_ssh_key(paths: SitePaths) -> bool:
    """Makes an Ed25519 key pair where there is none; returns whether it did."""
    paths.create()
    public = paths.ssh_key.with_suffix(".pub")
    if paths.ssh_key.exists() and public.exists():
        return False
    private_text, public_text = new_ssh_key(paths)
    write_private(paths.ssh_key, private_text)
    write_private(public, public_text)
    return True


def new_ssh_key(paths: SitePaths) -> tuple[str, str]:
    """A fresh Ed25519 key pair of the site, private and public text in OpenSSH's formats; not written."""
    key = ed25519.Ed25519PrivateKey.generate()
    private_text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()
    public_text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private_text, public_text.decode() + f" strata-{paths.site}\n"
