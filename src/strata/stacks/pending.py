"""What a killed run was about to create in OpenStack and did not write down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata.access.openstack import connect, project_id, server_groups, visible_servers, volumes
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.stacks.events import label, urn_type
from strata.stacks.pulumi_state import read_deployment
from strata.stacks.recovery import INSTANCE, VOLUME

if TYPE_CHECKING:
    from openstack.connection import Connection

Inputs = Mapping[str, Any]
"""What the resource was to be created with; names as in Pulumi's state."""
LATELY = timedelta(days=1)
"""Between a killed run and the next one."""


def delete_pending(state_file: Path, context: SiteContext, progress: Progress) -> bool:
    """Deletes what a killed run was about to create and did not write down, so that it can be created again.

    Returns:
        Whether the state has pending creations that have to be cleared.
    """
    deployment = read_deployment(state_file)
    creations = [
        operation["resource"]
        for operation in deployment.get("pending_operations") or ()
        if operation["type"] == "creating"
    ]
    if not creations:
        return False
    removers = _removers(context)
    orphans = [r for r in creations if urn_type(r["urn"]) in removers]
    if orphans:
        known = {str(r["id"]) for r in deployment.get("resources") or () if r.get("id")}
        with connect(context) as connection:
            for resource in orphans:
                kind = urn_type(resource["urn"])
                progress.update(f"removing partially created {label(kind)} {resource['urn'].rpartition('::')[2]}")
                removers[kind](connection, context, resource.get("inputs") or {}, known)
    return True


Remover = Callable[["Connection", SiteContext, Inputs, set[str]], None]
"""Deletes what matches the inputs and is none of the known ids."""


def _server(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    project = project_id(connection, context)
    for server in visible_servers(connection, context, details=True):
        if server.name == inputs.get("name") and server.project_id == project and server.id not in known:
            connection.compute.delete_server(server)
            connection.compute.wait_for_delete(server, wait=60)


def _in_project(connection: Connection, context: SiteContext, kind: str, inputs: Inputs) -> Iterator[Any]:
    """Objects of neutron with the desired name in the site's project."""
    project, name = project_id(connection, context), inputs.get("name")
    if project is not None and name:
        yield from getattr(connection.network, f"{kind}s")(name=name, project_id=project)


def _network_resource(kind: str) -> Remover:
    def remove(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
        for resource in _in_project(connection, context, kind, inputs):
            if resource.id not in known:
                getattr(connection.network, f"delete_{kind}")(resource)

    return remove


def _network(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """The project's, or the external one, which is the administrator's and no other than a lab's."""
    if not inputs.get("external"):
        _network_resource("network")(connection, context, inputs, known)
    elif context.provider.owns_cloud:
        for network in connection.network.networks(name=inputs["name"], is_router_external=True):
            if network.id not in known:
                connection.network.delete_network(network)


def _subnet(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    for subnet in connection.network.subnets(network_id=inputs["networkId"], cidr=inputs["cidr"]):
        if subnet.id not in known:
            connection.network.delete_subnet(subnet)


def _router(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    for router in _in_project(connection, context, "router", inputs):
        if router.id not in known:
            for port in connection.network.ports(device_id=router.id, device_owner="network:router_interface"):
                connection.network.remove_interface_from_router(router, port=port.id)
            connection.network.delete_router(router)


def _router_interface(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """The router itself is known; its port in the subnet is not."""
    router, subnet = inputs["routerId"], inputs["subnetId"]
    for port in connection.network.ports(device_id=router, device_owner="network:router_interface"):
        if port.id not in known and any(ip["subnet_id"] == subnet for ip in port.fixed_ips):
            connection.network.remove_interface_from_router(router, port=port.id)


def _floating_ip(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """It has no name; the description is the site's and the instance's."""
    project, description = project_id(connection, context), inputs.get("description")
    if project is not None and description:
        for floating_ip in connection.network.ips(project_id=project, description=description):
            if floating_ip.id not in known:
                connection.network.delete_ip(floating_ip)


def _rule(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """Neutron refuses the same rule twice; the description is the site's own name of the rule."""
    group, description = inputs["securityGroupId"], inputs.get("description")
    for rule in connection.network.security_group_rules(security_group_id=group, direction=inputs["direction"]):
        if rule.id not in known and rule.description == description:
            connection.network.delete_security_group_rule(rule)


def _named(service: str, kind: str) -> Remover:
    def remove(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
        proxy = getattr(connection, service)
        resource = getattr(proxy, f"find_{kind}")(inputs["name"])
        if resource is not None and str(resource.id) not in known and resource.name == inputs["name"]:
            getattr(proxy, f"delete_{kind}")(resource)

    return remove


def _server_group(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    for group in server_groups(connection, context):
        if group.name == inputs["name"] and str(group.id) not in known:
            connection.compute.delete_server_group(group)


def _volume(connection: Connection, context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """One that was created lately and never attached: it has no data. Another one of that name stays, with its data."""
    storage: Any = connection.block_storage  # the SDK types it as either version's
    for volume in volumes(connection, context):
        lately = datetime.now(UTC) - _time(volume.created_at) < LATELY
        if volume.name == inputs["name"] and str(volume.id) not in known and not volume.attachments and lately:
            storage.delete_volume(volume)


def _time(text: str) -> datetime:
    """cinder's times are UTC without a zone."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _volume_attachment(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    """nova refuses the same attachment twice."""
    server, volume = inputs["instanceId"], inputs["volumeId"]
    if f"{server}/{volume}" not in known:
        connection.compute.delete_volume_attachment(server, volume, ignore_missing=True)


def _aggregate(connection: Connection, _context: SiteContext, inputs: Inputs, known: set[str]) -> None:
    for aggregate in connection.compute.aggregates():
        if aggregate.name == inputs["name"] and str(aggregate.id) not in known:
            for host in aggregate.hosts or ():
                connection.compute.remove_host_from_aggregate(aggregate, host)
            connection.compute.delete_aggregate(aggregate)


IN_PROJECT: dict[str, Remover] = {
    INSTANCE: _server,
    "openstack:networking/port:Port": _network_resource("port"),
    "openstack:networking/subnet:Subnet": _subnet,
    "openstack:networking/network:Network": _network,
    "openstack:networking/router:Router": _router,
    "openstack:networking/floatingIp:FloatingIp": _floating_ip,
    "openstack:networking/routerInterface:RouterInterface": _router_interface,
    "openstack:networking/secGroup:SecGroup": _network_resource("security_group"),
    "openstack:networking/secGroupRule:SecGroupRule": _rule,
    "openstack:compute/keypair:Keypair": _named("compute", "keypair"),
    "openstack:compute/serverGroup:ServerGroup": _server_group,
    VOLUME: _volume,
    "openstack:compute/volumeAttach:VolumeAttach": _volume_attachment,
}
"""Types whose creation cannot simply be repeated, and whose objects are the site's own."""
CLOUD_WIDE: dict[str, Remover] = {
    "openstack:identity/project:Project": _named("identity", "project"),
    "openstack:compute/flavor:Flavor": _named("compute", "flavor"),
    "openstack:images/image:Image": _named("image", "image"),
    "openstack:compute/aggregateV2:AggregateV2": _aggregate,
}
"""The same for the whole cloud; on one that others use too, an object of that name may be theirs and stays."""
REPEATABLE = frozenset(
    {
        "openstack:compute/quotaSetV2:QuotaSetV2",
        "openstack:networking/quotaV2:QuotaV2",
        "openstack:identity/roleAssignment:RoleAssignment",
    }
)
"""Types whose creation sets what is there already; a second time does no harm."""


def _removers(context: SiteContext) -> dict[str, Remover]:
    return IN_PROJECT | (CLOUD_WIDE if context.provider.owns_cloud else {})
