"""From the site model to the arguments of the components; nothing here talks to a cloud."""

from __future__ import annotations

from strata.cloud.aggregate import AggregateArgs
from strata.cloud.external_network import ExternalNetworkArgs
from strata.cloud.flavor import WITHOUT, FlavorArgs
from strata.cloud.image import ImageArgs
from strata.cloud.instance import BootVolumeArgs
from strata.cloud.network import IPv6Args, NetworkArgs
from strata.cloud.project import ProjectQuota
from strata.cloud.server_group import ServerGroupArgs
from strata.cloud.virtual_address import VirtualAddressArgs
from strata.cloud.volume import VolumeArgs
from strata.errors import UserError
from strata.models.cloud import Cloud
from strata.models.compute import Flavor, Instance
from strata.models.site import Site
from strata.provider import Provider
from strata.pulumi_program import without_traceback
from strata.roles import KUBERNETES_ROLES
from strata.site.host_list import LOAD_BALANCER
from strata.site.paths import SitePaths

SITE_METADATA = "strata_site"
ROLES_METADATA = "strata_roles"


def project_quota(cloud: Cloud) -> ProjectQuota | None:
    """The quota of site.yaml, and enough ports for its instances; None where the project exists already."""
    quota = cloud.project.quota
    if quota is None:
        return None
    return ProjectQuota(quota.instances, quota.cores, quota.memory.mebibytes, 2 * quota.instances + 50)


def network_arguments(cloud: Cloud) -> list[NetworkArgs]:
    """One entry per network."""
    return [
        NetworkArgs(
            name=network.name,
            cidr=str(network.cidr),
            ip_version=network.cidr.version,
            gateway=str(network.gateway),
            pool=(str(network.allocation_pool.start), str(network.allocation_pool.end)),
            dns_servers=tuple(str(s) for s in network.dns_servers if s.version == network.cidr.version),
            existing=network.existing,
            ipv6=None
            if network.ipv6 is None
            else IPv6Args(
                str(network.ipv6.cidr),
                network.ipv6.addressing,
                str(network.ipv6.gateway),
                tuple(str(s) for s in network.dns_servers if s.version == 6),
            ),
        )
        for network in cloud.networks
    ]


def external_network_arguments(cloud: Cloud, provider: Provider) -> ExternalNetworkArgs | None:
    """The external network, with the subnet that the provider gives it; None where no router leads to one."""
    if cloud.external_network is None:
        return None
    given = provider.external_subnet()
    if given is None:
        return ExternalNetworkArgs(cloud.external_network)
    pool = (str(given.first), str(given.last))
    subnet = NetworkArgs(cloud.external_network, str(given.cidr), 4, str(given.gateway or given.cidr[1]), pool)
    return ExternalNetworkArgs(cloud.external_network, subnet, given.physical_network, given.vlan)


def further_networks(site: Site, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses beside their own that instances with these roles send from: of their pods, virtual ones."""
    networks = []
    if site.cluster is not None and set(roles) & set(KUBERNETES_ROLES):
        networks.append(str(site.cluster.pod_network))
        section = site.cluster.kubespray
        if section is not None and section.api_address is not None and "kube_control_plane" in roles:
            networks.append(str(section.api_address))
    if site.hosts.load_balancer is not None and LOAD_BALANCER in roles:
        networks.append(str(site.hosts.load_balancer.virtual_address))
    return tuple(networks)


def virtual_address_arguments(site: Site, cloud: Cloud) -> VirtualAddressArgs | None:
    """The load balancers' address, in the network of theirs; None where none of them is an instance."""
    section = site.hosts.load_balancer
    instance = next((i for i in cloud.instances if LOAD_BALANCER in i.roles), None)
    if section is None or instance is None:
        return None
    return VirtualAddressArgs(site.name, str(section.virtual_address), instance.network, section.floating_ip)


def image_arguments(cloud: Cloud, provider: Provider) -> list[ImageArgs]:
    """One entry per image: uploaded, or the cloud's own."""
    arguments = []
    for image in cloud.images:
        upload = provider.image_upload(image)
        if upload:
            arguments.append(ImageArgs(image.name, upload.file, upload.properties, disk_format=upload.disk_format))
        else:
            arguments.append(ImageArgs(image.name, id=provider.image_id(image)))
    return arguments


def flavor_arguments(cloud: Cloud) -> list[FlavorArgs]:
    """One entry per flavor. One without cards may run on hosts with cards where the site has no others."""
    aggregates = set(_aggregates(cloud))

    def aggregate(flavor: Flavor) -> str | None:
        # the aggregate filter compares one value; a second kind is asked for by its PCI alias alone
        kind = min(flavor.accelerators, default=WITHOUT)
        return kind if kind in aggregates else None

    return [
        FlavorArgs(
            name=flavor.name,
            vcpus=flavor.vcpus,
            memory_mib=flavor.memory.mebibytes,
            disk_gib=flavor.disk.gibibytes,
            accelerators=dict(flavor.accelerators),
            aggregate=aggregate(flavor),
            existing=flavor.existing,
            placement=flavor.placement_specs,
        )
        for flavor in cloud.flavors
    ]


def server_group_arguments(cloud: Cloud) -> list[ServerGroupArgs]:
    """One entry per server group."""
    return [ServerGroupArgs(group.name, group.policy) for group in cloud.server_groups]


def boot_volume_arguments(instance: Instance) -> BootVolumeArgs | None:
    """What an instance boots from; None for a disk of the hypervisor."""
    volume = instance.boot_volume
    return None if volume is None else BootVolumeArgs(volume.size.gibibytes, volume.volume_type)


def volume_arguments(site: Site, cloud: Cloud) -> dict[str, list[VolumeArgs]]:
    """Instance to its volumes for data."""
    return {
        instance.name: [
            VolumeArgs(v.name, f"{site.name}: {v.mount_path} of {instance.name}", v.size.gibibytes, v.volume_type)
            for v in instance.volumes
        ]
        for instance in cloud.instances
    }


def aggregate_arguments(site: Site, cloud: Cloud) -> list[AggregateArgs]:
    """One entry per kind of accelerator, and one of the hosts without; a host of two kinds is in both.

    None where the cloud has all flavors already: whoever made them placed them too.
    """
    if all(flavor.existing for flavor in cloud.flavors):
        return []
    return [AggregateArgs(f"{site.name}-{kind}", kind, tuple(names)) for kind, names in _aggregates(cloud).items()]


def _aggregates(cloud: Cloud) -> dict[str, list[str]]:
    """Hosts by kind of accelerator, in order."""
    hosts: dict[str, list[str]] = {}
    for hypervisor in cloud.hypervisors:
        for kind in sorted(hypervisor.accelerators) or [WITHOUT]:
            hosts.setdefault(kind, []).append(hypervisor.name)
    return dict(sorted(hosts.items()))


def instance_metadata(site: Site, roles: tuple[str, ...]) -> dict[str, str]:
    """Server metadata, by which a cloud's operator sees whose the instance is."""
    return {SITE_METADATA: site.name, ROLES_METADATA: ",".join(roles)}


@without_traceback
def public_key(paths: SitePaths) -> str:
    """The site's public SSH key.

    Raises:
        pulumi.RunError: there is none yet.
    """
    file = paths.ssh_key.with_suffix(".pub")
    try:
        return file.read_text().strip()
    except FileNotFoundError as error:
        raise UserError(f"{file} does not exist", fix=f"strata up {paths.site} --layer cloud") from error
