"""Drift of the cloud that Pulumi's provider does not see, compared with and repaired by OpenStack's API.

Repaired before the program runs: the provider would replace an instance that lost its interface, and what it refreshes
into the state would pass for the desired value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.access.openstack import connect, project_id, visible_servers
from strata.drift.instance_ports import port_differences
from strata.drift.instances import disruptive_drift, instance_differences
from strata.drift.made import Difference, MadeObjects, made_objects
from strata.drift.network import network_differences
from strata.drift_model import Drift
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection


def objects_drift(context: SiteContext) -> list[Drift]:
    """What differs, property by property.

    Raises:
        UserError: the cloud does not respond.
    """
    if not (made := made_objects(context)):
        return []
    with _connected(context) as connection:
        return [drift for difference in _differences(context, connection, made) for drift in difference.drift()]


def repair_objects(context: SiteContext, progress: Progress) -> list[str]:
    """Repairs what differs, except what only the operator may decide.

    Returns:
        What was repaired, one text per object.

    Raises:
        UserError: the cloud does not respond, or refuses a repair.
    """
    if not (made := made_objects(context)):
        return []
    progress.update("comparing the cloud's objects with the state")
    with _connected(context) as connection:
        return [
            _repair(difference, context)
            for difference in _differences(context, connection, made)
            if difference.repair is not None
        ]


def instances_to_disrupt(context: SiteContext) -> list[str]:
    """Names of instances with another flavor or image than declared, which repairing stops or rebuilds.

    Raises:
        UserError: the cloud does not respond.
    """
    if not (made := made_objects(context)):
        return []
    with _connected(context) as connection:
        return disruptive_drift(connection, made, visible_servers(connection, context))


def _differences(context: SiteContext, connection: Connection, made: MadeObjects) -> list[Difference]:
    project = project_id(connection, context)
    if project is None:
        return []
    return [
        *network_differences(connection.network, made, project),
        *port_differences(connection.network, made, project),
        *instance_differences(connection, made, visible_servers(connection, context), project),
    ]


def _repair(difference: Difference, context: SiteContext) -> str:
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    assert difference.repair is not None
    text = "; ".join(f"{p.name} was {p.found}, is {p.wanted}" for p in difference.properties)
    try:
        difference.repair()
    except SDKException as error:
        names = ", ".join(p.name for p in difference.properties)
        raise UserError(
            f"{difference.object}: {names} cannot be repaired: {_first_line(error)}",
            fix=f"undo the change that `strata status {context.site.name}` names, then the same command again",
        ) from error
    return f"{difference.object}: {text}"


@contextmanager
def _connected(context: SiteContext) -> Iterator[Connection]:
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    try:
        with connect(context) as connection:
            yield connection
    except (SDKException, ClientException, OSError) as error:
        raise UserError(
            f"the cloud cannot be compared: {_first_line(error)}",
            fix=f"strata status {context.site.name} --no-drift",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
