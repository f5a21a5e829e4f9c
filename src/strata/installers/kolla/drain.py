"""Empties a hypervisor before its reboot: nova starts nothing on it, and its instances are migrated to others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strata.cloud.flavor_cards import ALIAS
from strata.errors import UserError
from strata.progress import Progress

if TYPE_CHECKING:
    from openstack.compute.v2.server import Server
    from openstack.compute.v2.service import Service
    from openstack.connection import Connection

REASON = "Strata: PCI passthrough"
"""Reason for which a compute service is disabled; one with another reason is not Strata's to enable."""
LIVE, COLD = ("ACTIVE", "PAUSED"), ("SHUTOFF",)
"""Statuses in which nova migrates an instance."""
POLL_SECONDS = 2.0
MIGRATION_SECONDS = 4 * 3600
"""How long one instance may take; nova itself aborts a live migration without an end, by the size of the instance."""
START_SECONDS = 900
"""How long nova-compute may take to report after its host's reboot."""


def compute_services(connection: Connection) -> dict[str, Service]:
    """nova's compute service of each hypervisor, by the host's name."""
    return {str(service.host): service for service in connection.compute.services(binary="nova-compute")}


def servers_on(connection: Connection, host: str) -> list[Server]:
    """Instances of all projects on a hypervisor."""
    # by `host`, openstacksdk would drop them all again: nova's field of that name is another one
    return list(connection.compute.servers(all_projects=True, compute_host=host))


def require_movable(connection: Connection, host: str, why: str, again: str) -> list[str]:
    """Checks that a hypervisor can be emptied, before anything is changed.

    Args:
        connection: to the cloud, as its administrator.
        host: the hypervisor.
        why: what the reboot is for.
        again: what the operator runs afterwards.

    Returns:
        Names of the instances that would be migrated.

    Raises:
        UserError: names the instances that nova cannot migrate, or there is no other hypervisor for them.
    """
    servers = servers_on(connection, host)
    start = f"{host} needs a reboot ({why}); its configuration is written."
    if staying := [f"{server.name} ({server.id}) {reason}" for server in servers if (reason := _obstacle(server))]:
        raise UserError(
            f"PCI passthrough: {start} Instances on it cannot be migrated: {'; '.join(staying)}",
            fix="delete these instances, or shut them down: nova migrates instances that are shut off if another "
            f"hypervisor has what they need. Then {again}",
        )
    services = compute_services(connection).items()
    others = [name for name, other in services if name != host and (other.status, other.state) == ("enabled", "up")]
    names = [str(server.name) for server in servers]
    if names and not others:
        raise UserError(
            f"PCI passthrough: {start} No other hypervisor is enabled and up, which could take {', '.join(names)}",
            fix=f"enable one (openstack compute service set --enable HOST nova-compute), or delete them. Then {again}",
        )
    return names


def _obstacle(server: Server) -> str:
    """Why nova cannot migrate an instance; empty if it can, or once its current task has ended."""
    if server.status in LIVE and ALIAS in (server.flavor.extra_specs or {}):
        return "runs with PCI devices"
    return "" if server.task_state or server.status in LIVE + COLD else f"has the status {server.status}"


def drain(connection: Connection, host: str, progress: Progress) -> None:
    """Disables the compute service of a hypervisor and migrates its instances, one after the other.

    An interrupted drain resumes: a migration that is in progress is waited for.

    Args:
        connection: to the cloud, as its administrator.
        host: the hypervisor; `require_movable` was successful.
        progress: shows the current instance.

    Raises:
        UserError: an instance did not leave; names it.
    """
    service = compute_services(connection)[host]
    if service.status != "disabled":  # one that an operator disabled stays theirs
        connection.compute.disable_service(service, disabled_reason=REASON)
    while servers := servers_on(connection, host):
        for number, server in enumerate(servers):
            progress.update(f"migrating {server.name} from {host}, {len(servers) - number} left")
            _move(connection, _settled(connection, server), host)


def _move(connection: Connection, server: Server, host: str) -> None:
    from openstack.exceptions import HttpException  # noqa: PLC0415  # loads openstack: 0.2 s

    if server.compute_host != host:
        return  # it left while it was waited for
    reason = _obstacle(server)
    try:
        if not reason and server.status in COLD:
            connection.compute.migrate_server(server)
            server = _confirmed(connection, _settled(connection, server))
        elif not reason:
            connection.compute.live_migrate_server(server, block_migration="auto")
            server = _settled(connection, server)
    except HttpException as error:  # no other hypervisor has what it needs
        reason = f"is refused by nova: {error}"
    if server.compute_host == host:
        reason = reason or f"has the status {server.status} again after nova tried to migrate it"
        raise UserError(
            f"PCI passthrough: {server.name} stays on {host}: it {reason}",
            fix=f"see `openstack server event list {server.id}` and nova's logs, migrate or delete it, and run the "
            f"same command again; until then, nova starts nothing on {host}",
        )


def _settled(connection: Connection, server: Server) -> Server:
    """The instance once nova works on it no more.

    Raises:
        UserError: that takes too long.
    """
    end = time.monotonic() + MIGRATION_SECONDS
    while (current := connection.compute.get_server(server.id)).task_state:
        if time.monotonic() > end:
            raise UserError(
                f"PCI passthrough: {current.name} is still in the task {current.task_state}",
                fix="run the same command again to wait longer, or see nova's logs",
            )
        time.sleep(POLL_SECONDS)
    return current


def _confirmed(connection: Connection, server: Server) -> Server:
    """An instance after its cold migration, which nova reverts until it is confirmed."""
    if server.status == "VERIFY_RESIZE":
        connection.compute.confirm_server_resize(server)
        return _settled(connection, server)
    return server


def confirm_migrated(connection: Connection, host: str) -> None:
    """Confirms cold migrations away from a hypervisor that an interrupted drain left.

    Args:
        connection: to the cloud, as its administrator.
        host: its compute service was disabled by Strata.
    """
    query = {"source_compute": host, "status": "finished", "migration_type": "migration"}
    for migration in connection.compute.migrations(**query):
        server = connection.compute.find_server(migration.server_id)
        if server is not None:
            _confirmed(connection, _settled(connection, server))


def enable(connection: Connection, host: str, progress: Progress) -> bool:
    """Enables the compute service of a hypervisor once it reports, if Strata disabled it.

    Args:
        connection: to the cloud, as its administrator.
        host: the hypervisor, after its reboot.
        progress: shows what is waited for.

    Returns:
        Whether it was enabled.

    Raises:
        UserError: the service does not report.
    """
    end = time.monotonic() + START_SECONDS
    while (service := compute_services(connection).get(host)) and service.disabled_reason == REASON:
        if service.state == "up":
            connection.compute.enable_service(service)
            return True
        if time.monotonic() > end:
            raise UserError(
                f"PCI passthrough: nova-compute on {host} does not report after the reboot; it stays disabled",
                fix=f"start it (on {host}, see the log of the container nova_compute), and run the same command again",
            )
        progress.update(f"waiting for nova-compute on {host}")
        time.sleep(POLL_SECONDS)
    return False
