"""From a site to its plan, with the same functions that the layers themselves use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from strata.catalogue.site_needs import databases
from strata.catalogue.site_volumes import export_paths
from strata.models.cloud import Cloud
from strata.models.cluster import Cluster
from strata.models.declared_hosts import declared_hosts
from strata.models.gpu_nodes import gpu_nodes, node_labels
from strata.models.site import Site
from strata.plan.model import (
    AggregatePlan,
    CloudPlan,
    ClusterPlan,
    FlavorPlan,
    HostPlan,
    HostsPlan,
    ImagePlan,
    InstancePlan,
    NetworkPlan,
    NodePlan,
    Plan,
    PlatformPlan,
    ProjectPlan,
    ReleasePlan,
    RouterPlan,
    SecurityGroupPlan,
    ServerGroupPlan,
    VolumePlan,
)
from strata.platform.releases import releases
from strata.provider import provider_of
from strata.roles import KUBERNETES_ROLES

if TYPE_CHECKING:
    from strata.cloud.security_group import Ingress


def plan(site: Site) -> Plan:
    """What each layer would create; talks to nothing."""
    return Plan(
        site=site.name,
        domain=site.domain,
        cloud=None if site.cloud is None else _cloud(site, site.cloud),
        hosts=_hosts(site),
        cluster=None if site.cluster is None else _cluster(site, site.cluster),
        platform=None if site.cluster is None else _platform(site),
    )


def _cloud(site: Site, cloud: Cloud) -> CloudPlan:
    from strata.cloud import arguments  # noqa: PLC0415  # loads pulumi: 0.1 s
    from strata.cloud.flavor import GPU_KEY  # noqa: PLC0415  # loads pulumi: 0.1 s
    from strata.cloud.role_ports import instance_groups, security_group_arguments  # noqa: PLC0415  # loads pulumi: 0.1 s

    provider = provider_of(site)
    quota = arguments.project_quota(cloud)
    groups = security_group_arguments(site, cloud)
    cards = {flavor.name: flavor.accelerators for flavor in cloud.flavors}
    return CloudPlan(
        deployment=cloud.deployment,
        location=provider.location,
        credentials=cloud.credentials or site.name,
        project=ProjectPlan(
            name=cloud.project.name,
            instances=quota.instances if quota else None,
            cores=quota.cores if quota else None,
            memory_mib=quota.memory_mib if quota else None,
        ),
        key_pair=site.name,
        networks=tuple(
            NetworkPlan(
                name=n.name,
                cidr=n.cidr,
                gateway=n.gateway,
                pool_start=n.pool[0],
                pool_end=n.pool[1],
                dns_servers=n.dns_servers,
                existing=n.existing,
            )
            for n in arguments.network_arguments(cloud)
        ),
        router=_router(site, cloud),
        security_groups=tuple(
            SecurityGroupPlan(name=g.name, rules=tuple(_rule(r) for r in g.ingress)) for g in groups.values()
        ),
        images=tuple(
            ImagePlan(
                name=i.name,
                distribution=i.distribution,
                release=i.release,
                uploaded=provider.image_upload(i) is not None,
            )
            for i in cloud.images
        ),
        flavors=tuple(
            FlavorPlan(
                name=f.name,
                vcpus=f.vcpus,
                memory_mib=f.memory_mib,
                disk_gib=f.disk_gib,
                extra_specs=f.extra_specs(),
                existing=f.existing,
            )
            for f in arguments.flavor_arguments(cloud)
        ),
        aggregates=tuple(
            AggregatePlan(name=a.name, metadata={GPU_KEY: a.kind}, hosts=a.hosts)
            for a in arguments.aggregate_arguments(site, cloud)
        ),
        server_groups=tuple(
            ServerGroupPlan(
                name=group.name,
                policy=group.policy,
                instances=tuple(i.name for i in cloud.instances if i.server_group == group.name),
            )
            for group in cloud.server_groups
        ),
        instances=tuple(
            InstancePlan(
                name=i.name,
                flavor=i.flavor,
                image=i.image,
                network=i.network,
                accelerators=dict(cards[i.flavor]),
                security_groups=tuple(
                    g.name for key, g in groups.items() if key in instance_groups(site, i.name, i.roles)
                ),
                floating_ip=i.floating_ip,
                availability_zone=i.availability_zone,
            )
            for i in cloud.instances
        ),
        volumes=tuple(_volumes(cloud)),
    )


def _volumes(cloud: Cloud) -> Iterator[VolumePlan]:
    for instance in cloud.instances:
        boot = instance.boot_volume
        if boot is not None:
            yield VolumePlan(
                name="boot volume",
                size_gib=boot.size.gibibytes,
                volume_type=boot.volume_type,
                instance=instance.name,
                mount_path="/",
            )
        for volume in instance.volumes:
            yield VolumePlan(
                name=volume.name,
                size_gib=volume.size.gibibytes,
                volume_type=volume.volume_type,
                instance=instance.name,
                mount_path=str(volume.mount_path),
            )


def _router(site: Site, cloud: Cloud) -> RouterPlan | None:
    from strata.cloud import arguments  # noqa: PLC0415  # loads pulumi: 0.1 s

    external = arguments.external_network_arguments(cloud, provider_of(site))
    if external is None:
        return None
    return RouterPlan(
        name=site.name,
        external_network=external.name,
        cidr=external.subnet.cidr if external.subnet else None,
        networks=tuple(n.name for n in cloud.networks if not n.existing),
    )


def _rule(rule: Ingress) -> str:
    what = rule.protocol or "everything"
    ports = f" {rule.port}{f'-{rule.last}' if rule.last else ''}" if rule.port else ""
    return f"{what}{ports} from {rule.source or f'the group {rule.group}'}"


def _hosts(site: Site) -> HostsPlan:
    planned = [HostPlan(name=i.name, address=None, roles=i.roles) for i in (site.cloud.instances if site.cloud else ())]
    planned += [
        HostPlan(
            name=m.name,
            address=str(m.address),
            roles=m.roles,
            institution=m.institution,
            zone=m.zone,
        )
        for m in site.hosts.machines
    ]
    return HostsPlan(
        hosts=tuple(planned),
        nfs_exports={name: str(path) for name, path in export_paths(site).items()},
        databases=databases(site),
    )


def _cluster(site: Site, cluster: Cluster) -> ClusterPlan:
    accelerators = gpu_nodes(site)
    return ClusterPlan(
        name=cluster.name,
        installer=cluster.installer,
        datastore=cluster.datastore,
        pod_network=str(cluster.pod_network),
        service_network=str(cluster.service_network),
        nodes=tuple(
            _node(site, cluster, host.name, host.roles, accelerators.get(host.name))
            for host in declared_hosts(site)
            if not set(KUBERNETES_ROLES).isdisjoint(host.roles)
        ),
    )


def _node(
    site: Site, cluster: Cluster, name: str, roles: tuple[str, ...], accelerators: Mapping[str, int] | None
) -> NodePlan:
    return NodePlan(
        name=name,
        control_plane="kube_control_plane" in roles,
        labels=node_labels(site, accelerators, name) if accelerators is not None else {},
        taints=cluster.gpu_nodes.taints if accelerators is not None else (),
        accelerators=dict(accelerators or {}),
    )


def _platform(site: Site) -> PlatformPlan:
    return PlatformPlan(
        releases=tuple(
            ReleasePlan(name=r.name, chart=r.chart_source, namespace=r.namespace, address=r.address)
            for r in releases(site)
        )
    )
