"""Drift of instances that Pulumi's provider does not see: interfaces, metadata, volumes, locks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from strata.drift.made import DEFAULTS, Difference, Made, MadeObjects, Property
from strata.drift_model import ABSENT, MISSING, PRESENT

if TYPE_CHECKING:
    from openstack.connection import Connection

COMPARED = ("interface", "metadata", "volume", "locked")
"""Properties of an instance."""
DETACH_SECONDS = 20.0
"""How long nova may take to detach an interface."""


def instance_differences(
    connection: Connection, made: MadeObjects, servers: Iterable[Any], project: str
) -> Iterator[Difference]:
    """Instances of the state that are not as declared; one that is gone is left to the program.

    Args:
        connection: to the cloud.
        made: what Strata created.
        servers: all that can be seen.
        project: id of the site's project.
    """
    known = made.get("Instance", {})
    if not known:
        return
    ports: dict[str, list[Any]] = {}
    network: Any = connection.network
    for port in network.ports(project_id=project):
        ports.setdefault(str(port.device_id or ""), []).append(port)
    for server in servers:
        if (resource := known.get(str(server.id))) is not None:
            yield from _interfaces(connection, resource, server, ports.get(resource.id, []), made)
            yield from _metadata(connection, resource, server)
            yield from _volumes(resource, server, made)
            if server.is_locked:
                unlock = f"false (openstack server unlock {resource.id})"
                yield Difference(str(resource), (Property("locked", unlock, "true"),))


def disruptive_drift(connection: Connection, made: MadeObjects, servers: Iterable[Any]) -> list[str]:
    """Names of instances that the program would stop or rebuild: their flavor or image is another than declared.

    Args:
        connection: to the cloud.
        made: what Strata created.
        servers: all that can be seen.
    """
    known = made.get("Instance", {})
    pairs = [(known[str(server.id)], server) for server in servers if str(server.id) in known]
    flavors = {str(flavor.id): str(flavor.name) for flavor in connection.compute.flavors()} if pairs else {}
    return [
        resource.name for resource, server in pairs if _resized(resource, server, flavors) or _rebuilt(resource, server)
    ]


def _resized(resource: Made, server: Any, flavors: dict[str, str]) -> bool:
    """Depending on its version, nova shows the flavor's id or its name."""
    declared = str(resource.inputs.get("flavorId", ""))
    shows = {str(value) for value in (server.flavor.id, server.flavor.name) if value}
    return bool(declared and shows) and not shows & {declared, flavors.get(declared, declared)}


def _rebuilt(resource: Made, server: Any) -> bool:
    declared, actual = resource.inputs.get("imageId"), server.image and server.image.id
    return bool(declared and actual) and str(actual) != str(declared)


def _interfaces(
    connection: Connection, resource: Made, server: Any, ports: list[Any], made: MadeObjects
) -> Iterator[Difference]:
    declared = {str(network["port"]) for network in resource.inputs.get("networks", ()) if network.get("port")}
    if not declared:
        return  # imported, and no run since
    attached = {str(port.id): port for port in ports}
    for identifier in sorted(attached.keys() - declared):
        port = attached[identifier]
        addresses = ", ".join(ip["ip_address"] for ip in port.fixed_ips or ()) or identifier
        detach = partial(_detach, connection, server, port)
        yield Difference(str(resource), (Property(f"interface {addresses}", ABSENT, PRESENT),), detach)
    for identifier in sorted((declared & made.get("Port", {}).keys()) - attached.keys()):
        # before the program runs: its provider would replace the instance
        attach = partial(connection.compute.create_server_interface, resource.id, port_id=identifier)
        yield Difference(str(resource), (Property(f"interface {identifier}", PRESENT, MISSING),), attach)


def _detach(connection: Connection, server: Any, port: Any) -> None:
    """Detaches a port; one that nova does not know, or does not let go, is unbound, so that it carries no traffic."""
    network: Any = connection.network
    listed = [address for addresses in (server.addresses or {}).values() for address in addresses]
    if any(
        address.get("OS-EXT-IPS:mac_addr", address.get("OS-EXT-IPS-MAC:mac_addr")) == port.mac_address
        for address in listed
    ):
        connection.compute.delete_server_interface(port.id, server=server.id)
        end = time.monotonic() + DETACH_SECONDS
        while time.monotonic() < end:
            current = network.find_port(port.id)
            if current is None or current.device_id != server.id:
                return
            time.sleep(1)
    network.update_port(port.id, device_id="", device_owner="")


def _metadata(connection: Connection, resource: Made, server: Any) -> Iterator[Difference]:
    """Strata's own keys; others may be the operator's."""
    actual = server.metadata or {}
    declared = {key: str(value) for key, value in resource.inputs.get("metadata", {}).items() if key != DEFAULTS}
    changed = {key: value for key, value in declared.items() if actual.get(key) != value}
    if changed:
        properties = tuple(Property(f"metadata {k}", v, str(actual.get(k, MISSING))) for k, v in changed.items())
        yield Difference(
            str(resource), properties, partial(connection.compute.set_server_metadata, resource.id, **changed)
        )


def _volumes(resource: Made, server: Any, made: MadeObjects) -> Iterator[Difference]:
    """Volumes that were attached; only the operator knows whether they are in use."""
    for volume in server.attached_volumes or ():
        # the volume that an instance boots from is deleted with it, and is in no state of its own
        own = bool(resource.inputs.get("blockDevices")) and volume.delete_on_termination is not False
        if str(volume.id) not in made.get("Volume", {}) and not own:
            command = f"openstack server remove volume {resource.id} {volume.id}"
            yield Difference(str(resource), (Property(f"volume {volume.id}", f"{ABSENT} ({command})", PRESENT),))
