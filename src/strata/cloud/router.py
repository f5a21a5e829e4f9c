"""The project's router, which leads its networks to the external one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class RouterArgs:
    """One router.

    Args:
        name: in OpenStack.
        external_network_id: where it leads.
        subnet_ids: of the networks that it joins, by their names.
    """

    name: str
    external_network_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]


class Router(pulumi.ComponentResource):
    """Router with an interface in each network."""

    id: pulumi.Output[str]
    interfaces: list[pulumi.Resource]

    def __init__(self, name: str, args: RouterArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Router", name, None, opts)
        router = openstack.networking.Router(
            name,
            name=args.name,
            admin_state_up=True,
            external_network_id=args.external_network_id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.interfaces = [
            openstack.networking.RouterInterface(
                f"{name}-{network}",
                router_id=router.id,
                subnet_id=subnet,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for network, subnet in args.subnet_ids.items()
        ]
        self.id = router.id
        self.register_outputs({"id": self.id})
