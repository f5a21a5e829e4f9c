"""Records the cloud's instances, on the operator's machine: no credentials of the cloud go into the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from openstack.connection import Connection as Cloud
from openstack.exceptions import SDKException, raise_from_response

from strata.access.openstack import connect
from strata.cloud.flavor_cards import ALIAS
from strata.errors import UserError
from strata.models.cloud import Cloud as CloudModel
from strata.site.context import SiteContext
from strata_services.accounting.commands.connection import Connection

SOURCE = "nova"
FIRST = timedelta(days=365)
"""How far back the first collection goes; nova forgets instances when its operator archives deleted rows."""
OVERLAP = timedelta(days=1)
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Instance:
    """An instance as nova reports its usage; without `ends` it still exists."""

    instance_id: str
    project: str
    name: str
    flavor: str
    cpus: int
    memory_bytes: int
    cards: int
    card: str | None
    starts: datetime
    ends: datetime | None


def collect_instances(context: SiteContext, connection: Connection) -> int:
    """Records all instances since the last time, deleted ones included; the same again changes no row.

    Returns:
        How many there were.

    Raises:
        UserError: the site has no cloud, or it does not respond.
    """
    if context.site.cloud is None:
        raise UserError(f"--collect: site {context.site.name} has no cloud", fix="leave the option out")
    at = datetime.now(UTC)
    since = start_of(connection, at)
    try:
        with connect(context) as cloud:
            usages, projects = read_usages(cloud, context.site.cloud, {"start": _text(since), "end": _text(at)})
            flavors = cloud.compute.flavors(details=True, is_public=None, get_extra_specs=True)
            aliases = {str(flavor.name): str((flavor.extra_specs or {}).get(ALIAS, "")) for flavor in flavors}
    except SDKException as error:
        raise UserError(f"the cloud does not respond: {error}", fix=f"strata status {context.site.name}") from None
    instances = list(read_usage(usages, aliases, projects))
    record_instances(connection, instances, at)
    return len(instances)


def read_usages(cloud: Cloud, model: CloudModel, period: Mapping[str, str]) -> tuple[list[Any], dict[str, str]]:
    """Usage of every project, or with a member's rights of the site's, and the projects' names by id.

    Raises:
        SDKException: nova refuses.
    """
    if model.administrator:
        answer = cloud.compute.get("/os-simple-tenant-usage", params={"detailed": "1", **period})
        raise_from_response(answer)
        return answer.json()["tenant_usages"], {str(project.id): str(project.name) for project in cloud.list_projects()}
    own = str(cloud.current_project_id)
    answer = cloud.compute.get(f"/os-simple-tenant-usage/{own}", params=dict(period))
    raise_from_response(answer)
    usage = answer.json()["tenant_usage"]  # empty where there was no instance
    return [usage] if usage else [], {own: model.project.name}


def start_of(connection: Connection, at: datetime) -> datetime:
    """Since when instances are to be collected."""
    row = connection.execute("SELECT at FROM collection WHERE source = %s", (SOURCE,)).fetchone()
    return row[0] - OVERLAP if row else at - FIRST


def read_usage(
    usages: Iterable[Mapping[str, Any]], aliases: Mapping[str, str], projects: Mapping[str, str]
) -> Iterable[Instance]:
    """The instances of nova's `tenant_usages`.

    Args:
        usages: of os-simple-tenant-usage, detailed.
        aliases: flavor to its `pci_passthrough:alias`.
        projects: id to name; a deleted project keeps its id.
    """
    for usage in usages:
        project = projects.get(usage["tenant_id"], usage["tenant_id"])
        for server in usage["server_usages"]:
            cards = dict(part.rpartition(":")[::2] for part in aliases.get(server["flavor"], "").split(",") if part)
            ends = _time(server["ended_at"]) if server["ended_at"] else None
            yield Instance(
                server["instance_id"],
                project,
                server["name"],
                server["flavor"],
                server["vcpus"],
                server["memory_mb"] * MEBIBYTE,
                sum(int(count) for count in cards.values()),
                ",".join(sorted(cards)) or None,
                _time(server["started_at"]),
                ends,
            )


def record_instances(connection: Connection, instances: Iterable[Instance], at: datetime) -> None:
    """Adds instances and their ends; one with another flavor than before starts a new row.

    Args:
        connection: of the database's owner.
        instances: all that existed since the last time.
        at: when nova was asked.
    """
    listed = list(instances)
    with connection.transaction():
        for instance in listed:
            _record(connection, instance, at)
        # nova has forgotten these: they ended between the last time and now
        connection.execute(
            "UPDATE instance SET ends = greatest(starts, (SELECT at FROM collection WHERE source = %s)) "
            "WHERE ends IS NULL AND instance_id <> ALL (%s::uuid[])",
            (SOURCE, [instance.instance_id for instance in listed]),
        )
        connection.execute(
            "INSERT INTO collection (source, at) VALUES (%s, %s) ON CONFLICT (source) DO UPDATE SET at = EXCLUDED.at",
            (SOURCE, at),
        )


def _record(connection: Connection, instance: Instance, at: datetime) -> None:
    row = connection.execute(
        "SELECT starts, flavor FROM instance WHERE instance_id = %s ORDER BY starts DESC LIMIT 1",
        (instance.instance_id,),
    ).fetchone()
    starts = instance.starts
    if row and row[1] == instance.flavor:
        connection.execute(
            "UPDATE instance SET ends = %s WHERE instance_id = %s AND starts = %s AND ends IS DISTINCT FROM %s",
            (instance.ends, instance.instance_id, row[0], instance.ends),
        )
        return
    if row:  # resized since the last time
        starts = min(at, instance.ends or at)
        connection.execute(
            "UPDATE instance SET ends = %s WHERE instance_id = %s AND starts = %s",
            (starts, instance.instance_id, row[0]),
        )
    connection.execute(
        "INSERT INTO instance (instance_id, project, name, flavor, cpus, memory_bytes, cards, card, starts, ends) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            instance.instance_id,
            instance.project,
            instance.name,
            instance.flavor,
            instance.cpus,
            instance.memory_bytes,
            instance.cards,
            instance.card,
            starts,
            instance.ends,
        ),
    )


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _time(text: str) -> datetime:
    """nova writes UTC without a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
