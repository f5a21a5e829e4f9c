"""What a site's project has of the kinds that Strata creates in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata.access.openstack import has_cinder
from strata.stacks.recovery import INSTANCE, VOLUME

if TYPE_CHECKING:
    from openstack.connection import Connection

PORT = "openstack:networking/port:Port"
KINDS: Mapping[str, str] = {
    "openstack:networking/network:Network": "network",
    "openstack:networking/subnet:Subnet": "subnet",
    "openstack:networking/router:Router": "router",
    "openstack:networking/routerInterface:RouterInterface": "router-interface",
    "openstack:networking/secGroup:SecGroup": "security-group",
    "openstack:networking/secGroupRule:SecGroupRule": "security-group-rule",
    "openstack:compute/keypair:Keypair": "key-pair",
    "openstack:compute/serverGroup:ServerGroup": "server-group",
    INSTANCE: "instance",
    PORT: "port",
    "openstack:networking/floatingIp:FloatingIp": "floating-ip",
    VOLUME: "volume",
    "openstack:compute/volumeAttach:VolumeAttach": "volume-attachment",
}
"""Pulumi's types to what an operator calls them, each after those that it refers to."""
_GET = {
    "network": ("network", "get_network"),
    "subnet": ("network", "get_subnet"),
    "router": ("network", "get_router"),
    "router-interface": ("network", "get_port"),
    "security-group": ("network", "get_security_group"),
    "security-group-rule": ("network", "get_security_group_rule"),
    "server-group": ("compute", "get_server_group"),
    "instance": ("compute", "get_server"),
    "port": ("network", "get_port"),
    "floating-ip": ("network", "get_ip"),
    "volume": ("block_storage", "get_volume"),
}


@dataclass(frozen=True)
class CloudObject:
    """An object of OpenStack.

    Args:
        id: as its service knows it; of a key pair, the name.
        name: empty where it has none.
        values: attributes by openstacksdk's names.
    """

    id: str
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)


Objects = Mapping[str, tuple[CloudObject, ...]]
"""Kind to the project's objects. Interfaces of routers are ports."""


def of_kind(objects: Objects, kind: str) -> tuple[CloudObject, ...]:
    """The objects of one of `KINDS`."""
    return objects.get("port" if kind == "router-interface" else kind, ())


def read_project(connection: Connection) -> Objects:
    """Reads all objects of the project that the credentials are for.

    Raises:
        SDKException, ClientException: the cloud does not respond, or not to these credentials.
    """
    network: Any = connection.network
    own = {"project_id": connection.current_project_id}
    # an administrator's list has the rules of all projects too, those of shared groups included
    by_kind = {
        "network": network.networks(**own),
        "subnet": network.subnets(**own),
        "router": network.routers(**own),
        "security-group": network.security_groups(**own),
        "security-group-rule": network.security_group_rules(**own),
        "port": network.ports(**own),
        "floating-ip": network.ips(**own),
        "instance": connection.compute.servers(details=True),
        "key-pair": connection.compute.keypairs(),
        "server-group": connection.compute.server_groups(),
    }
    storage: Any = connection.block_storage if has_cinder(connection) else None
    volumes = [] if storage is None else list(storage.volumes())
    return {kind: tuple(_object(kind, item) for item in objects) for kind, objects in by_kind.items()} | {
        "volume": tuple(_object("volume", volume) for volume in volumes),
        "volume-attachment": tuple(
            CloudObject(
                f"{attachment['server_id']}/{volume.id}",
                "",
                {"server_id": attachment["server_id"], "volume_id": volume.id},
            )
            for volume in volumes
            for attachment in volume.attachments or ()
        ),
    }


def project_of(connection: Connection, kind: str, identifier: str) -> str | None:
    """The id of the project that an object belongs to; None where these credentials see none with this id."""
    from openstack.exceptions import BadRequestException, NotFoundException  # noqa: PLC0415  # loads openstack: 0.2 s

    if kind not in _GET:
        return None
    service, method = _GET[kind]
    try:
        return str(getattr(getattr(connection, service), method)(identifier).project_id)
    except (NotFoundException, BadRequestException):
        return None


def _object(kind: str, item: Any) -> CloudObject:
    values = item.to_dict(computed=False)
    identifier = item.name if kind == "key-pair" else item.id
    return CloudObject(str(identifier), str(item.name or ""), values)
