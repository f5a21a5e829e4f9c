"""The facts about what carries a site's hosts, with those of machines without a cloud as the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from typing import ClassVar

from strata.layers import Playbook
from strata.models.compute import Hypervisor, Image
from strata.models.site import Site
from strata.provider.deployment_host import Problem, deployment_host_problems
from strata.site.host_list import Host
from strata.site.paths import INSTALLED, SitePaths

SIMULATED_CARDS = "/etc/strata/pci/devices"
"""Where a lab lists the PCI devices that nova gave to an instance, in the form of sysfs."""
CHECKSUM = "strata_checksum"
"""Property of an image that was downloaded: the digest of the file."""
SYSFS_CARDS = "/sys/bus/pci/devices"


@dataclass(frozen=True)
class Subnet:
    """The subnet of an external network that Strata creates.

    Args:
        cidr: its addresses.
        first: of the addresses for routers and floating IPs.
        last: of these.
        gateway: of the network; None for its first address.
        physical_network: neutron's name of the interface that leads to it; None for neutron's choice.
        vlan: on that interface; None for untagged packets.
    """

    cidr: IPv4Network
    first: IPv4Address
    last: IPv4Address
    gateway: IPv4Address | None = None
    physical_network: str | None = None
    vlan: int | None = None


@dataclass(frozen=True)
class ImageUpload:
    """An image that Strata uploads.

    Args:
        file: beside the Pulumi program, or an absolute path.
        properties: of the image.
        disk_format: of the file.
    """

    file: str
    properties: Mapping[str, str] = field(default_factory=dict)
    disk_format: str = "raw"


class Provider:
    """What is known of a site's hosts before any of them is asked; what acts on them is `strata.lifecycle`.

    Args:
        site: the model.
    """

    owns_cloud: ClassVar[bool] = False
    """Whether the whole cloud belongs to the site: flavors, hypervisors, every project."""
    host_keys_on_console: ClassVar[bool] = False
    """Whether the host keys of new instances are read from their consoles: networks of others lead to them."""
    can_adopt: ClassVar[bool] = False
    """Whether the cloud may have objects of the site from before it, which `strata adopt` imports."""
    pci_directories: ClassVar[tuple[str, ...]] = (SIMULATED_CARDS, SYSFS_CARDS)
    """Where hosts list their PCI devices, the first that exists; rehearsals of real sites have simulated ones."""
    kernel_nfs: ClassVar[bool] = True
    """Whether kernels of nodes have an NFS client, which csi-driver-nfs mounts with in its own container."""
    playbooks: tuple[Playbook, ...] = ()
    """Playbooks for the provider's own hosts."""
    lasting_secrets: ClassVar[frozenset[str]] = frozenset()
    """Generated secrets that `strata secrets rotate` leaves alone."""
    contents: ClassVar[str] = "the state"
    """What `destroy` removes."""
    stop_with: ClassVar[str] = "drain the nodes, then shut the machines down over SSH"
    """How an operator stops hosts that are not Strata's to stop."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.paths = SitePaths(site.name)

    @property
    def location(self) -> str:
        """Where the cloud is, for `strata plan`."""
        return "no cloud"

    @property
    def clouds_file(self) -> Path | None:
        """The site's own clouds.yaml, which need not exist yet; None to search for it as OpenStack's tools do."""
        return None

    @property
    def cloud_entry(self) -> str | None:
        """Entry of clouds.yaml; None where the site has no cloud."""
        return None

    @property
    def allows_substitutes(self) -> bool:
        """Whether a substitute may take the place of a chart or plugin of another project that is not available."""
        return self.site.allow_substitutes and not INSTALLED

    # --- this machine ---------------------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        """What this machine is missing to deploy the site."""
        return deployment_host_problems(self.site, self.paths)

    def can_compare(self) -> bool:
        """Whether the site can be compared with what runs: there are credentials of its cloud."""
        return self.clouds_file is not None and self.clouds_file.exists()

    def local_networks(self) -> dict[str, IPv4Network | IPv6Network]:
        """The site's networks that exist on this machine, by the key that names them."""
        return {}

    # --- the cloud ------------------------------------------------------------------------------------------------

    def external_subnet(self) -> Subnet | None:
        """The subnet of the external network; None where the network exists already."""
        return None

    def image_upload(self, image: Image) -> ImageUpload | None:
        """What is uploaded for an image; None where the cloud has it already."""
        return None

    def image_id(self, image: Image) -> str | None:
        """The id of an image that the cloud has; None to find it by its name."""
        return None

    def pci_addresses(self, hypervisor: Hypervisor) -> dict[str, str]:
        """PCI address to kind of a hypervisor's accelerators; empty where they are not known."""
        return {}

    def endpoints(self) -> dict[str, str]:
        """Name and URL of what the provider itself runs."""
        return {}

    # --- its own hosts --------------------------------------------------------------------------------------------

    def hosts(self) -> tuple[Host, ...]:
        """Hosts that the provider itself runs, beside those of the site; their roles are Ansible groups."""
        return ()

    def variables(self) -> dict[str, dict[str, object]]:
        """Inventory variables of these groups."""
        return {}
