"""The lab as the provider of a site's hosts: OpenStack and its instances in containers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD
from strata.findings import Drift, OrphanedResource
from strata.layers import Layer, Playbook, Step
from strata.models.cloud import Cloud
from strata.models.compute import Hypervisor, Image
from strata.progress import Progress
from strata.provider.base import SIMULATED_CARDS, ImageUpload, Subnet
from strata.provider.deployment_host import Problem
from strata.provider.own_cloud import OwnCloudProvider
from strata.site.hosts import Host
from strata_lab import openstack_controller
from strata_lab.openstack_controller import CONTROLLER_OFFSET, controller_address
from strata_lab.paths import PLAYBOOKS

if TYPE_CHECKING:
    from openstack.connection import Connection

    from strata.site.context import SiteContext

IMAGE_PROPERTY = "strata_image"
"""Property of an image in the lab's glance: the podman image that nova's lab driver boots."""
PLACEHOLDER = "placeholder.raw"
"""What the lab's glance stores in place of a disk; beside the Pulumi program."""
GROUP = "openstack_controller"
SOURCES = ("ansible/plugins", "lab/ansible", "lab/openstack", "lab/src/strata_lab/openstack_controller.py")


class LabProvider(OwnCloudProvider):
    """A cloud that runs on this machine."""

    owns_cloud = True
    simulates_accelerators = True
    allows_substitutes = True
    pci_directories = (SIMULATED_CARDS,)  # an instance without cards must not count the machine's own
    kernel_nfs = False
    contents = "all containers, data and secrets"
    # of the backup store: the id of its key, and what only restic can replace
    lasting_secrets = frozenset({ACCESS_KEY, PASSWORD})
    playbooks = (Playbook("openstack", Layer.CLOUD, GROUP, PLAYBOOKS, before_cloud=True, sources=SOURCES),)

    @property
    def location(self) -> str:
        return "on this machine"

    @property
    def cloud(self) -> Cloud:
        """The site's cloud, which a lab always has."""
        if self.site.cloud is None:
            raise ValueError(f"site {self.site.name} has no cloud")
        return self.site.cloud

    # Modules of the lab are imported late: most commands need none of them.

    def problems(self) -> list[Problem]:
        from strata_lab.preflight import machine_problems

        return [Problem(problem.message, problem.fix) for problem in machine_problems()]

    def check(self) -> None:
        from strata_lab.addresses import check_networks
        from strata_lab.memory import check_memory
        from strata_lab.ports import check_ports

        super().check()
        check_networks(self.site)
        check_ports(self.site)
        check_memory(self.site)

    def local_networks(self) -> dict[str, IPv4Network | IPv6Network]:
        control = self.cloud.control_network
        found: dict[str, IPv4Network | IPv6Network] = {} if control is None else {"cloud.control_network": control}
        return found | {f"cloud.networks.{n.name}.cidr": n.cidr for n in self.cloud.networks}

    def networks_in_use(self) -> list[IPv4Network | IPv6Network]:
        from strata_lab.addresses import networks_in_use

        return [used.network for used in networks_in_use()]

    def remember(self, site_file: Path) -> None:
        from strata_lab.addresses import remember_file

        remember_file(site_file)

    def external_subnet(self) -> Subnet | None:
        control = self.cloud.control_network
        if control is None:
            return None
        first = max(control.num_addresses // 2, CONTROLLER_OFFSET + 1)
        return Subnet(control, control[first], control[-2])

    def image_upload(self, image: Image) -> ImageUpload | None:
        from strata_lab.images import node_filesystem

        return ImageUpload(PLACEHOLDER, {IMAGE_PROPERTY: node_filesystem(image.release).reference})

    def pci_addresses(self, hypervisor: Hypervisor) -> dict[str, str]:
        known = self.site.accelerators
        kinds = {(card.vendor_id, card.product_id): kind for kind, card in known.items()}
        found: dict[str, str] = {}
        for line in openstack_controller.pci_devices(known, hypervisor.accelerators):
            address, vendor, product, *_ = line.split(",")
            found[address] = kinds[vendor, product]
        return found

    def cloud_recreated(self, message: str) -> bool:
        # nova calls the project's id invalid, which the provider does not take for "gone"
        return "is not a valid project" in message

    def endpoints(self) -> dict[str, str]:
        return {"OpenStack": f"http://{controller_address(self.site)}:5000/v3"}

    def hosts(self) -> tuple[Host, ...]:
        return (Host("controller", controller_address(self.site), (GROUP,)),)

    def variables(self) -> dict[str, dict[str, object]]:
        return {GROUP: openstack_controller.variables(self.site)}

    def cloud_steps(self, context: SiteContext, *, thorough: bool) -> list[Step]:
        from strata_lab.steps import cloud_steps

        return cloud_steps(context, self.cloud, thorough=thorough)

    def after_cloud(self, context: SiteContext, progress: Progress) -> int:
        from strata_lab.hypervisors import forget_emptied

        return forget_emptied(context, progress)

    def planned_changes(self, context: SiteContext) -> list[str]:
        from strata_lab.hypervisors import leaving_hypervisors

        return [f"hypervisor {name}: removed, once no instance is on it" for name in leaving_hypervisors(context)]

    def refused_changes(self, context: SiteContext) -> list[str]:
        from strata_lab.hypervisors import occupied_hypervisors

        return [
            f"hypervisor {name} is removed from site.yaml, but runs {', '.join(on_it)}"
            for name, on_it in occupied_hypervisors(context).items()
        ]

    def stop(self, progress: Progress) -> None:
        from strata_lab import controller

        controller.down(self.site, self.paths, progress)

    def remove_cloud(self, progress: Progress) -> bool:
        from strata_lab import controller

        controller.destroy(self.site, self.paths, progress)
        return True

    def drift(self) -> list[Drift]:
        from strata_lab.drift import lab_drift

        return lab_drift(self.site)

    def orphans(self, connection: Connection, servers: set[str]) -> Iterator[OrphanedResource]:
        from strata_lab.orphans import allocation_orphans, podman_orphans

        yield from podman_orphans(self.site.name, connection, servers)
        yield from allocation_orphans(connection, servers)
