"""The hosts that a site file declares, whether or not they exist: instances of the cloud, and machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.models.types import Size


@dataclass(frozen=True)
class DeclaredHost:
    """An instance or a machine.

    Args:
        name: without the domain.
        roles: in site.yaml, without those that come with them.
        path: its key in site.yaml.
        cpus: number of CPUs; None for a machine of which site.yaml does not specify it.
        memory: of the host; None as with cpus.
        accelerators: kind to number.
        sized: whether all of this is known: False for an instance whose flavor does not exist.
    """

    name: str
    roles: tuple[str, ...]
    path: KeyPath
    cpus: int | None
    memory: Size | None
    accelerators: Mapping[str, int]
    sized: bool = True


def declared_hosts(site: Site) -> Iterator[DeclaredHost]:
    """All hosts of a site: instances of the cloud, sized by their flavors, then machines."""
    if site.cloud is not None:
        flavors = {flavor.name: flavor for flavor in site.cloud.flavors}
        for index, instance in enumerate(site.cloud.instances):
            path: KeyPath = (*INSTANCES, index)
            flavor = flavors.get(instance.flavor)
            if flavor is None:  # has a finding of its own
                yield DeclaredHost(instance.name, instance.roles, path, None, None, {}, sized=False)
            else:
                size = (flavor.vcpus, flavor.memory, flavor.accelerators)
                yield DeclaredHost(instance.name, instance.roles, path, *size)
    for index, machine in enumerate(site.hosts.machines):
        yield DeclaredHost(
            machine.name, machine.roles, (*MACHINES, index), machine.cpus, machine.memory, machine.accelerators
        )


def declared_roles(site: Site) -> set[str]:
    """The roles that any host of a site has in site.yaml."""
    return {role for host in declared_hosts(site) for role in host.roles}
