"""A security group with its rules."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class Ingress:
    """One kind of traffic that may come in.

    Args:
        name: of the rule in the stack.
        source: network that may send it, "0.0.0.0/0" for all.
        protocol: "tcp", "udp", "icmp"; None for any.
        port: None for all.
    """

    name: str
    source: str
    protocol: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class SecurityGroupArgs:
    """One security group; everything may go out.

    Args:
        name: in OpenStack.
        description: what it is for.
        ingress: what may come in.
    """

    name: str
    description: str
    ingress: tuple[Ingress, ...]


class SecurityGroup(pulumi.ComponentResource):
    """Security group and rules."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: SecurityGroupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:SecurityGroup", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = openstack.networking.SecGroup(name, name=args.name, description=args.description, opts=child)
        for rule in args.ingress:
            openstack.networking.SecGroupRule(
                f"{name}-{rule.name}",
                security_group_id=group.id,
                direction="ingress",
                ethertype="IPv6" if ":" in rule.source else "IPv4",
                protocol=rule.protocol,
                port_range_min=rule.port,
                port_range_max=rule.port,
                remote_ip_prefix=rule.source,
                description=rule.name,
                # neutron refuses the same rule twice, so the old one goes first
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
        self.id = group.id
        self.register_outputs({"id": self.id})
