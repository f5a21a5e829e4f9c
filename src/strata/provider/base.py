"""The interface to what carries a site's hosts, with the defaults of a site whose machines others run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from strata.errors import UserError
from strata.findings import Drift, OrphanedResource
from strata.layers import Playbook, Step
from strata.models.compute import Hypervisor, Image
from strata.models.site import Site
from strata.progress import Progress
from strata.provider.deployment_host import Problem, deployment_host_problems
from strata.site.hosts import Host
from strata.site.paths import INSTALLED, SitePaths

if TYPE_CHECKING:
    from openstack.connection import Connection

    from strata.site.context import SiteContext


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
    """What carries the hosts of a site.

    Args:
        site: the model.
    """

    owns_cloud: ClassVar[bool] = False
    """Whether the whole cloud belongs to the site: flavors, hypervisors, every project."""
    references_objects: ClassVar[bool] = False
    """Whether the site uses objects of the cloud that others created, which are checked before `up` changes any."""
    simulates_accelerators: ClassVar[bool] = False
    """Whether the accelerators are PCI devices without hardware, which NVIDIA's driver does not see."""
    pci_directories: ClassVar[tuple[str, ...]] = (SIMULATED_CARDS, SYSFS_CARDS)
    """Where hosts list their PCI devices, the first that exists; rehearsals of real sites have simulated ones."""
    kernel_nfs: ClassVar[bool] = True
    """Whether kernels of nodes have an NFS client, which csi-driver-nfs mounts with in its own container."""
    playbooks: tuple[Playbook, ...] = ()
    """Playbooks for the provider's own hosts."""
    lasting_secrets: ClassVar[frozenset[str]] = frozenset()
    """Generated secrets that `strata secrets rotate` leaves alone."""
    contents: ClassVar[str] = "all instances, networks and their data"
    """What `destroy` removes."""
    stop_with: ClassVar[str] = "stop instances with `openstack server stop`"
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

    def check(self) -> None:
        """Refuses a machine that cannot deploy the site, before anything is created.

        Raises:
            UserError: names everything that is missing, each with its fix.
        """
        if problems := self.problems():
            raise UserError(
                f"this machine cannot deploy site {self.site.name}:\n"
                + "\n".join(f"  {problem.message}" for problem in problems),
                fix="\n       ".join(problem.fix for problem in problems),
            )

    def can_compare(self) -> bool:
        """Whether the site can be compared with what runs: there are credentials of its cloud."""
        return self.clouds_file is not None and self.clouds_file.exists()

    def local_networks(self) -> dict[str, IPv4Network | IPv6Network]:
        """The site's networks that exist on this machine, by the key that names them."""
        return {}

    def networks_in_use(self) -> list[IPv4Network | IPv6Network]:
        """Networks that a copy of the site must avoid on this machine."""
        return []

    def remember(self, site_file: Path) -> None:
        """Records a site file, so that its networks stay reserved before it is up."""

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

    def cloud_recreated(self, message: str) -> bool:
        """Whether an error of the cloud's Pulumi program means that the cloud was re-created under its state."""
        return False

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

    # --- up, down, destroy ----------------------------------------------------------------------------------------

    def cloud_steps(self, context: SiteContext, *, thorough: bool) -> list[Step]:
        """Steps of `up` that come before the cloud's Pulumi program."""
        return []

    def after_cloud(self, context: SiteContext, progress: Progress) -> int:
        """Called after the cloud's Pulumi program; returns how many things it changed."""
        return 0

    def planned_changes(self, context: SiteContext) -> list[str]:
        """What `up` would change beside Pulumi's resources, from the site's state alone."""
        return []

    def refused_changes(self, context: SiteContext) -> list[str]:
        """What `up` would refuse, from what the cloud reports."""
        return []

    def stop(self, progress: Progress) -> None:
        """Stops the hosts; their data stays.

        Raises:
            UserError: they are not Strata's to stop.
        """
        raise UserError(
            f"`strata down` stops machines that Strata itself runs; {self.site.name} is not a lab site",
            fix=self.stop_with,
        )

    def remove_cloud(self, progress: Progress) -> bool:
        """Removes the cloud as a whole; False where its objects have to be deleted one by one."""
        return False

    # --- observation ----------------------------------------------------------------------------------------------

    def drift(self) -> list[Drift]:
        """Drift of what the provider itself runs."""
        return []

    def orphans(self, connection: Connection, servers: set[str]) -> Iterable[OrphanedResource]:
        """What a killed run left outside OpenStack's own records.

        Args:
            connection: to the cloud, as its administrator.
            servers: ids of all instances.
        """
        return ()
