"""The record of machines that share the virtual address: those that leave the site give it up first."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pydantic import Field

from strata.site.context import SiteContext
from strata.site.host_list import LOAD_BALANCER
from strata.site.outputs import Outputs


class VirtualAddressMembers(Outputs):
    """Machines on which keepalived was configured, or was about to be."""

    file_name: ClassVar[str] = "virtual-address-members.json"
    names: dict[str, str] = Field(default_factory=dict)
    """Address to name."""


def leaving_members(context: SiteContext) -> dict[str, str]:
    """Address and name of members that left the site; keepalived of one that only lost the role is the playbook's."""
    known = VirtualAddressMembers.load(context.paths) or VirtualAddressMembers()
    present = {str(machine.address) for machine in context.site.hosts.machines}
    return {address: name for address, name in known.names.items() if address not in present}


def add_members(context: SiteContext, *, stopped: Collection[str] = ()) -> None:
    """Records the site file's members beside the others, before keepalived is configured.

    Args:
        context: the site.
        stopped: addresses of members without keepalived by now.
    """
    known = VirtualAddressMembers.load(context.paths)
    names = {a: name for a, name in known.names.items() if a not in stopped} if known else {}
    if known or _members(context):
        VirtualAddressMembers(names=names | _members(context)).save(context.paths)


def remember_members(context: SiteContext) -> None:
    """Records the site file's members alone, after the playbook."""
    if VirtualAddressMembers.load(context.paths) is not None:
        VirtualAddressMembers(names=_members(context)).save(context.paths)


def _members(context: SiteContext) -> dict[str, str]:
    hosts = context.site.hosts
    own = [m for m in hosts.machines if hosts.load_balancer is not None and LOAD_BALANCER in m.roles]
    return {str(machine.address): machine.name for machine in own}
