"""The SSH key that the site's instances accept."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class KeyPairArgs:
    """One public key.

    Args:
        name: in OpenStack, unique per user.
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
            name=args.name,
            public_key=args.public_key,
            # the name is taken until the old one is gone
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.name = pair.name
        self.register_outputs({"name": self.name})
