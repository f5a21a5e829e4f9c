"""One broken relation between parts of a site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata.models.site import Site
from strata.models.yaml_events import KeyPath


@dataclass(frozen=True)
class Finding:
    """A mistake between parts.

    Args:
        path: the key that should change.
        why: what is wrong.
        fix: what would be right.
        reads: sections in which a missing entry could have caused it; not told while these have mistakes of their own.
    """

    path: KeyPath
    why: str
    fix: str
    reads: tuple[KeyPath, ...] = ()


INSTANCES: KeyPath = ("cloud", "instances")
MACHINES: KeyPath = ("hosts", "machines")


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
