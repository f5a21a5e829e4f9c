"""The SSH key that the site's instances accept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class KeyPairArgs:
    """One public key.

    Args:
        name: in OpenStack, unique per user; the digest of the key is added, so that the next one can be made before
            this one goes: deleted first, it would take every instance with it.
        public_key: OpenSSH format, one line.
    """

    name: str
    public_key: str


class KeyPair(pulumi.ComponentResource):
    """Key pair in nova."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: KeyPairArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:KeyPair", name, None, opts)
        pair = openstack.compute.Keypair(
            name,
            name=f"{args.name}-{hashlib.sha256(args.public_key.encode()).hexdigest()[:8]}",
            public_key=args.public_key,
            # explicit: the provider's own reaction is to delete first
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=False),
        )
        self.name = pair.name
        self.register_outputs({"name": self.name})
