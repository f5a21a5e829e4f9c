"""The life cycle of the lab: OpenStack and its instances in containers on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING

from strata.drift_model import Drift, OrphanedResource
from strata.layers import Step
from strata.lifecycle import CloudLifecycle
from strata.progress import Progress
from strata_lab import controller
from strata_lab.addresses import check_networks, networks_in_use, remember_file
from strata_lab.drift import lab_drift
from strata_lab.hypervisors import forget_emptied, leaving_hypervisors, occupied_hypervisors
from strata_lab.memory import check_memory
from strata_lab.orphans import allocation_orphans, podman_orphans
from strata_lab.ports import check_ports
from strata_lab.steps import cloud_steps

if TYPE_CHECKING:
    from openstack.connection import Connection


class LabLifecycle(CloudLifecycle):
    """Strata runs the whole cloud, and may stop and remove it."""

    def check(self) -> None:
        super().check()
        site = self.context.site
        check_networks(site)
        check_ports(site)
        check_memory(site)

    def networks_in_use(self) -> list[IPv4Network | IPv6Network]:
        return [used.network for used in networks_in_use()]

    def remember(self, site_file: Path) -> None:
        remember_file(site_file)

    def cloud_steps(self, *, thorough: bool, drainable: Callable[[str], bool]) -> list[Step]:  # noqa: ARG002  # a lab's hypervisors are not rebooted
        return cloud_steps(self.context, thorough=thorough)

    def cloud_recreated(self, message: str) -> bool:
        # nova calls the project's id invalid, which Pulumi's OpenStack provider does not take for "gone"
        return "is not a valid project" in message

    def after_cloud(self, progress: Progress) -> int:
        return forget_emptied(self.context, progress)

    def planned_changes(self) -> list[str]:
        leaving = leaving_hypervisors(self.context)
        return [f"hypervisor {name}: removed, once no instance is on it" for name in leaving]

    def refused_changes(self) -> list[str]:
        return [
            f"hypervisor {name} is removed from site.yaml, but runs {', '.join(on_it)}"
            for name, on_it in occupied_hypervisors(self.context).items()
        ]

    def stop(self, progress: Progress) -> None:
        controller.down(self.context.site, self.context.paths, progress)

    def remove_cloud(self, progress: Progress) -> bool:
        controller.destroy(self.context.site, self.context.paths, progress)
        return True

    def drift(self) -> list[Drift]:
        return lab_drift(self.context.site)

    def orphans(self, connection: Connection, servers: set[str]) -> Iterator[OrphanedResource]:
        yield from podman_orphans(self.context.site.name, connection, servers)
        yield from allocation_orphans(connection, servers)
