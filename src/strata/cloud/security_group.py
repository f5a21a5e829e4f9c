"""A security group and its rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class Ingress:
    """One kind of traffic that may come in.

    Args:
        name: of the rule in the stack.
        source: network that may send it; None where `group` names the sender.
        protocol: "tcp", "udp", "icmp"; None for any.
        port: None for all.
        group: key of the security group whose members may send it.
        version: of IP.
        last: last port of a range.
    """

    name: str
    source: str | None = None
    protocol: str | None = None
    port: int | None = None
    group: str | None = None
    version: int = 4
    last: int | None = None


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
    """Security group; `allow` adds its rules, which may name other groups."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: SecurityGroupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:SecurityGroup", name, None, opts)
        self._name = name
        self.id = openstack.networking.SecGroup(
            name, name=args.name, description=args.description, opts=pulumi.ResourceOptions(parent=self)
        ).id
        self.register_outputs({"id": self.id})

    def allow(self, ingress: Iterable[Ingress], groups: Mapping[str, SecurityGroup]) -> None:
        """Adds rules.

        Args:
            ingress: what may come in.
            groups: by the keys that the rules use.
        """
        for rule in ingress:
            openstack.networking.SecGroupRule(
                f"{self._name}-{rule.name}",
                security_group_id=self.id,
                direction="ingress",
                ethertype=f"IPv{rule.version}",
                protocol=rule.protocol,
                port_range_min=rule.port,
                port_range_max=rule.last or rule.port,
                remote_ip_prefix=rule.source,
                remote_group_id=groups[rule.group].id if rule.group else None,
                description=rule.name,
                # neutron refuses the same rule twice, so the old one goes first
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
