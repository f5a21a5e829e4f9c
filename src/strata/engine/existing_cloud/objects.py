"""What an existing cloud has of the things that a site refers to, read with the rights of the site's credentials."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata.access.openstack import has_cinder
from strata.models.cloud import Cloud
from strata.models.types import is_uuid

if TYPE_CHECKING:
    from openstack.connection import Connection

NEUTRON = ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule")
"""Resources whose quota matters, as neutron calls them."""
GIB = 2**30
PROBE_ADDRESS = "192.0.2.1"
NO_SECURITY_GROUP = "00000000-0000-0000-0000-000000000000"
FORBIDDEN = 403
COMMUNITY = "community"


@dataclass(frozen=True)
class FoundFlavor:
    """A flavor.

    Args:
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        disk_gib: root disk in GiB.
        extra_specs: those that the credentials may see.
    """

    vcpus: int
    memory_mib: int
    disk_gib: int
    extra_specs: Mapping[str, str]


@dataclass(frozen=True)
class FoundImage:
    """An image that instances can boot.

    Args:
        id: in glance.
        name: which others may have too.
        checksums: MD5 and the cloud's own kind, hexadecimal.
        created: when, as glance writes it.
        disk_gib: smallest root disk that nova boots it from, in GiB.
        community: whether any project may have published it, so that its name identifies nothing.
    """

    id: str
    name: str
    checksums: frozenset[str]
    created: str
    disk_gib: int = 0
    community: bool = False


@dataclass(frozen=True)
class FoundNetwork:
    """A network.

    Args:
        id: in neutron.
        name: which others may have too.
        cidrs: of its subnets that can be seen.
        port_security: whether its ports have security groups.
        address_pairs: whether neutron lets the credentials give ports of it further addresses.
    """

    id: str
    name: str
    cidrs: tuple[str, ...] = ()
    port_security: bool = True
    address_pairs: bool = True


@dataclass(frozen=True)
class FoundStorage:
    """What cinder has.

    Args:
        types: names of the volume types that the project may use.
        volumes: id to type of the project's volumes.
    """

    types: frozenset[str] = frozenset()
    volumes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowance:
    """A quota: limit, -1 for none, and what of it is in use or reserved."""

    limit: int
    used: int

    def allows(self, more: int) -> bool:
        """Whether so many more fit."""
        return self.limit < 0 or more <= self.limit - self.used


@dataclass(frozen=True)
class TakenName:
    """An object of the project with a name that Strata would give to a new one."""

    kind: str
    name: str
    id: str


@dataclass(frozen=True)
class CloudObjects:
    """What was found.

    Args:
        project: name of the project that the credentials are for.
        roles: of the credentials in it.
        flavors: by name, which is unique.
        images: those with a name or an id that the site uses.
        networks: those with a name that the site uses.
        external: external networks.
        zones: availability zones of instances, where the site names any.
        quota: what the project may use, by resource; one that the cloud does not report is missing.
        taken: objects of the project with one of the names that were asked for.
        storage: where the site has volumes; None where the cloud has no cinder.
    """

    project: str
    roles: frozenset[str] = frozenset()
    flavors: Mapping[str, FoundFlavor] = field(default_factory=dict)
    images: tuple[FoundImage, ...] = ()
    networks: tuple[FoundNetwork, ...] = ()
    external: tuple[FoundNetwork, ...] = ()
    zones: frozenset[str] = frozenset()
    quota: Mapping[str, Allowance] = field(default_factory=dict)
    taken: tuple[TakenName, ...] = ()
    storage: FoundStorage | None = None


def find_objects(
    connection: Connection,
    cloud: Cloud,
    known_images: Iterable[str] = (),
    names: Mapping[str, Collection[str]] | None = None,
    paired: Collection[str] = (),
) -> CloudObjects:
    """Reads what the site refers to, and its project's quota; changes nothing.

    Args:
        connection: with the site's own credentials.
        cloud: of the site.
        known_images: ids of the images that the site uses already, which may be hidden by now.
        names: kind to the names that Strata would give to new objects of the project.
        paired: names of existing networks on which ports need further addresses.

    Raises:
        SDKException, ClientException: the cloud does not respond, or not to these credentials.
    """
    session: Any = connection.session
    access: Any = session.auth.get_access(session)
    network: Any = connection.network
    cinder = _uses_volumes(cloud) and has_cinder(connection)
    return CloudObjects(
        project=str(access.project_name),
        roles=frozenset(str(name) for name in access.role_names),
        flavors={
            str(flavor.name): FoundFlavor(
                int(flavor.vcpus), int(flavor.ram), int(flavor.disk), dict(flavor.extra_specs or {})
            )
            for flavor in (connection.compute.flavors(get_extra_specs=True) if _existing_flavors(cloud) else ())
        },
        images=tuple(_images(connection, cloud, known_images)),
        networks=tuple(
            FoundNetwork(
                str(n.id),
                str(n.name),
                tuple(str(s.cidr) for s in network.subnets(network_id=n.id)),
                n.is_port_security_enabled is not False,
                wanted_network.name not in paired or _may_pair(connection, n),
            )
            for wanted_network in cloud.networks
            if wanted_network.existing
            for n in network.networks(name=wanted_network.name)
        ),
        external=tuple(
            FoundNetwork(str(n.id), str(n.name)) for n in network.networks(is_router_external=True) if cloud.instances
        ),
        zones=frozenset(
            str(zone.name)
            for zone in (connection.compute.availability_zones() if _zones(cloud) else ())
            if zone.state["available"]
        ),
        quota=_quota(connection) | (_storage_quota(connection) if cinder else {}) if cloud.project.existing else {},
        taken=tuple(_taken(connection, {k: v for k, v in (names or {}).items() if cinder or k != "volume"})),
        storage=_storage(connection) if cinder else None,
    )


def _may_pair(connection: Connection, candidate: Any) -> bool:
    """Whether neutron's policy, which differs between clouds, lets ports of a network have further addresses.

    Asked with a port that cannot be created, as its security group does not exist: policy comes first.
    """
    if candidate.project_id == connection.current_project_id:
        return True
    network: Any = connection.network
    port = {
        "network_id": candidate.id,
        "allowed_address_pairs": [{"ip_address": PROBE_ADDRESS}],
        "security_groups": [NO_SECURITY_GROUP],
    }
    answer = network.post("/ports", json={"port": port})
    if answer.ok:
        network.delete(f"/ports/{answer.json()['port']['id']}")
    return int(answer.status_code) != FORBIDDEN


def external_networks(objects: CloudObjects, name_or_id: str) -> list[FoundNetwork]:
    """External networks of a name, or with an id."""
    return [n for n in objects.external if (n.id if is_uuid(name_or_id) else n.name) == name_or_id]


def _taken(connection: Connection, names: Mapping[str, Collection[str]]) -> Iterator[TakenName]:
    network: Any = connection.network
    storage: Any = connection.block_storage if "volume" in names else None
    own = {"project_id": connection.current_project_id}
    lists: dict[str, Callable[[], Iterable[Any]]] = {
        "network": lambda: network.networks(**own),
        "router": lambda: network.routers(**own),
        "security group": lambda: network.security_groups(**own),
        "instance": connection.compute.servers,
        "volume": lambda: storage.volumes(),
    }
    for kind, declared in names.items():
        for item in lists[kind]() if declared else ():
            if item.name in declared:
                yield TakenName(kind, str(item.name), str(item.id))


def _existing_flavors(cloud: Cloud) -> bool:
    return any(flavor.existing for flavor in cloud.flavors)


def _uses_volumes(cloud: Cloud) -> bool:
    return any(instance.volumes or instance.boot_volume for instance in cloud.instances)


def _storage(connection: Connection) -> FoundStorage:
    storage: Any = connection.block_storage
    return FoundStorage(
        frozenset(str(volume_type.name) for volume_type in storage.types()),
        {str(volume.id): str(volume.volume_type) for volume in storage.volumes()},
    )


def _storage_quota(connection: Connection) -> dict[str, Allowance]:
    storage: Any = connection.block_storage
    limits = storage.get_limits().absolute
    return {
        "volumes": Allowance(limits.max_total_volumes, limits.total_volumes_used),
        "gigabytes": Allowance(limits.max_total_volume_gigabytes, limits.total_gigabytes_used),
    }


def _zones(cloud: Cloud) -> bool:
    return any(instance.availability_zone is not None for instance in cloud.instances)


def _images(connection: Connection, cloud: Cloud, known: Iterable[str]) -> Iterator[FoundImage]:
    """Active ones, by name and by id, each once."""
    from openstack.exceptions import NotFoundException  # noqa: PLC0415  # loads openstack: 0.2 s

    glance: Any = connection.image
    images = []
    for image in cloud.images:
        # glance lists those of the community only if asked
        named = list(glance.images(name=image.name)) or list(glance.images(name=image.name, visibility=COMMUNITY))
        images += named
    for identifier in {*known, *(str(image.id) for image in cloud.images if image.id)} - {str(o.id) for o in images}:
        with contextlib.suppress(NotFoundException):
            images.append(glance.get_image(identifier))
    for item in images:
        if item.status == "active":
            sums = frozenset(str(s) for s in (item.checksum, item.hash_value) if s)
            community = item.visibility == COMMUNITY
            yield FoundImage(str(item.id), str(item.name), sums, str(item.created_at), _least_disk(item), community)


def _least_disk(image: Any) -> int:
    """What nova demands of a flavor: the image's minimum, and room for its file; in GiB."""
    return max(int(image.min_disk or 0), -(-int(image.size or 0) // GIB))


def _quota(connection: Connection) -> dict[str, Allowance]:
    from openstack.exceptions import ForbiddenException, NotFoundException  # noqa: PLC0415  # loads openstack: 0.2 s

    limits = connection.compute.get_limits().absolute
    allowances = {
        "instances": Allowance(limits.instances, limits.instances_used),
        "cores": Allowance(limits.total_cores, limits.total_cores_used),
        "memory": Allowance(limits.total_ram, limits.total_ram_used),
        "server_group": Allowance(limits.server_groups, limits.server_groups_used),
    }
    network: Any = connection.network
    try:
        details = network.get(f"/quotas/{connection.current_project_id}/details")
        quota = details.json().get("quota", {}) if details.ok else {}
    except (ForbiddenException, NotFoundException):
        quota = {}  # not every driver counts
    for name in NEUTRON:
        if name in quota:
            usage = quota[name]
            allowances[name] = Allowance(int(usage["limit"]), int(usage["used"]) + int(usage.get("reserved", 0)))
    return allowances
