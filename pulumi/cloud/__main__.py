"""The OpenStack objects of one site, top to bottom; what they consist of is in src/strata/cloud."""

from __future__ import annotations

import pulumi
import pulumi_openstack as openstack

from strata.cloud import arguments
from strata.cloud.aggregate import Aggregate
from strata.cloud.credentials import required_entries
from strata.cloud.external_network import ExternalNetwork
from strata.cloud.flavor import Flavor
from strata.cloud.image import Image
from strata.cloud.instance import FloatingIpArgs, Instance, InstanceArgs
from strata.cloud.key_pair import KeyPair, KeyPairArgs
from strata.cloud.network import Network
from strata.cloud.project import Project, ProjectArgs
from strata.cloud.role_ports import instance_groups, security_group_arguments
from strata.cloud.router import Router, RouterArgs
from strata.cloud.security_group import SecurityGroup
from strata.cloud.server_group import ServerGroup
from strata.cloud.virtual_address import VirtualAddress
from strata.cloud.volume import Volume
from strata.provider import provider_of
from strata.pulumi_program import required_cloud, stack_site
from strata.site.host_list import LOAD_BALANCER
from strata.site.openings import EVERY_HOST
from strata.site.paths import SitePaths

site, _ = stack_site()
cloud = required_cloud(site)
provider = provider_of(site)
entries = required_entries(site.name, cloud)
quota = arguments.project_quota(cloud)
if cloud.administrator:
    in_cloud = pulumi.ResourceOptions(provider=openstack.Provider("administrator", cloud=entries.administrator))
if quota is None:
    project = openstack.Provider("project-scope", cloud=entries.project)
else:
    args = ProjectArgs(cloud.project.name, site.name, entries.project, quota)
    project = Project("project", args, in_cloud).provider
in_project = pulumi.ResourceOptions(provider=project)
if not cloud.administrator:
    in_cloud = in_project

networks = {a.name: Network(a.name, a, in_project) for a in arguments.network_arguments(cloud)}
floating_ip = None
if external_arguments := arguments.external_network_arguments(cloud, provider):
    external = ExternalNetwork("external", external_arguments, in_cloud)
    routed: dict[str, pulumi.Input[str]] = {}
    for network in (networks[n.name] for n in cloud.networks if not n.existing):
        routed |= network.routed_subnets
    interfaces: list[pulumi.Resource] = []
    if routed:
        behind = pulumi.ResourceOptions(provider=project, depends_on=external.ready)
        interfaces = Router("router", RouterArgs(site.name, external.id, routed), behind).interfaces
    floating_ip = FloatingIpArgs(external.name, site.name, interfaces)
group_arguments = security_group_arguments(site, cloud)
groups = {role: SecurityGroup(role, a, in_project) for role, a in group_arguments.items()}
for role, group in groups.items():
    group.allow(group_arguments[role].ingress, groups)
key_pair = KeyPair("key-pair", KeyPairArgs(site.name, arguments.public_key(SitePaths(site.name))), in_project)

images = {a.name: Image(a.name, a, in_cloud) for a in arguments.image_arguments(cloud, provider)}
flavors = {a.name: Flavor(a.name, a, in_cloud) for a in arguments.flavor_arguments(cloud)}
aggregates = [Aggregate(a.kind, a, in_cloud) for a in arguments.aggregate_arguments(site, cloud)]
server_groups = {a.name: ServerGroup(a.name, a, in_project) for a in arguments.server_group_arguments(cloud)}

instances = {
    i.name: Instance(
        i.name,
        InstanceArgs(
            name=i.name,
            flavor=i.flavor,
            flavor_id=flavors[i.flavor].id,
            image_id=images[i.image].id,
            key_pair=key_pair.name,
            network_id=networks[i.network].id,
            subnet_id=networks[i.network].subnet_id,
            ipv6_subnet_id=networks[i.network].ipv6_subnet_id,
            security_group_ids=tuple(groups[key].id for key in instance_groups(site, i.name, i.roles) if key in groups),
            metadata=arguments.instance_metadata(site, i.roles),
            roles=i.roles,
            further_networks=arguments.further_networks(site, i.roles),
            floating_ip=floating_ip if i.floating_ip else None,
            server_group_id=None if i.server_group is None else server_groups[i.server_group].id,
            availability_zone=i.availability_zone,
            boot_volume=arguments.boot_volume_arguments(i),
        ),
        # the scheduler looks at the aggregates' metadata
        pulumi.ResourceOptions(provider=project, depends_on=aggregates),
    )
    for i in cloud.instances
}

volumes = {
    name: {a.name: Volume(a.name, a, instances[name].id, in_project).id for a in volumes}
    for name, volumes in arguments.volume_arguments(site, cloud).items()
}

virtual_address = None
if shared := arguments.virtual_address_arguments(site, cloud):
    own = tuple(groups[key].id for key in (EVERY_HOST, LOAD_BALANCER))
    virtual_address = VirtualAddress(LOAD_BALANCER, shared, networks[shared.network], own, floating_ip, in_project)

pulumi.export(
    "instances", {name: instance.outputs | {"volumes": volumes[name]} for name, instance in instances.items()}
)
pulumi.export("networks", {name: network.id for name, network in networks.items()})
if virtual_address is not None and virtual_address.floating_ip is not None:
    pulumi.export("virtual_floating_ip", virtual_address.floating_ip)
