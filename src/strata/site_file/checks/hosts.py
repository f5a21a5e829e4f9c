"""The hosts of a site with their keys, for the checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site


@dataclass(frozen=True)
class Host:
    """An instance or a machine."""

    name: str
    roles: tuple[str, ...]
    path: KeyPath


def hosts(site: Site) -> Iterator[Host]:
    """All hosts of a site: instances of the cloud, then machines."""
    for index, instance in enumerate(site.cloud.instances if site.cloud else ()):
        yield Host(instance.name, instance.roles, (*INSTANCES, index))
    for index, machine in enumerate(site.hosts.machines):
        yield Host(machine.name, machine.roles, (*MACHINES, index))
