"""The lab as the provider of a site's hosts: OpenStack and its instances in containers on this machine."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD
from strata.layers import Layer, Playbook
from strata.models.cloud import Cloud
from strata.models.compute import Hypervisor, Image
from strata.provider.base import SIMULATED_CARDS, ImageUpload, Subnet
from strata.provider.cloud_provider import CloudProvider
from strata.provider.deployment_host import Problem
from strata.site.host_list import Host
from strata_lab import openstack_controller
from strata_lab.cards import simulated_cards
from strata_lab.filesystems import node_filesystem
from strata_lab.openstack_controller import CONTROLLER_OFFSET, controller_address
from strata_lab.paths import PLAYBOOKS
from strata_lab.preflight import machine_problems

IMAGE_PROPERTY = "strata_image"
"""Property of an image in the lab's glance: the podman image that nova's lab driver boots."""
PLACEHOLDER = "placeholder.raw"
"""What the lab's glance stores in place of a disk; beside the Pulumi program."""
GROUP = "openstack_controller"
SOURCES = (
    "ansible/plugins",
    "lab/ansible",
    "lab/openstack",
    "lab/src/strata_lab/cards.py",
    "lab/src/strata_lab/openstack_controller.py",
)


class LabProvider(CloudProvider):
    """A cloud that runs on this machine."""

    owns_cloud = True
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

    def problems(self) -> list[Problem]:
        return [Problem(problem.message, problem.fix) for problem in machine_problems()]

    def local_networks(self) -> dict[str, IPv4Network | IPv6Network]:
        control = self.cloud.control_network
        networks: dict[str, IPv4Network | IPv6Network] = {} if control is None else {"cloud.control_network": control}
        return networks | {f"cloud.networks.{n.name}.cidr": n.cidr for n in self.cloud.networks}

    def external_subnet(self) -> Subnet | None:
        control = self.cloud.control_network
        if control is None:
            return None
        first = max(control.num_addresses // 2, CONTROLLER_OFFSET + 1)
        return Subnet(control, control[first], control[-2])

    def image_upload(self, image: Image) -> ImageUpload | None:
        return ImageUpload(PLACEHOLDER, {IMAGE_PROPERTY: node_filesystem(image.release).reference})

    def pci_addresses(self, hypervisor: Hypervisor) -> dict[str, str]:
        cards = simulated_cards(self.site.accelerators, hypervisor.accelerators)
        return {card.address: card.accelerator.kind for card in cards}

    def endpoints(self) -> dict[str, str]:
        return {"OpenStack": f"http://{controller_address(self.site)}:5000/v3"}

    def hosts(self) -> tuple[Host, ...]:
        return (Host("controller", controller_address(self.site), (GROUP,)),)

    def variables(self) -> dict[str, dict[str, object]]:
        return {GROUP: openstack_controller.variables(self.site)}
