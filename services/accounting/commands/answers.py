"""The three questions, asked of the records."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import class_row
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from strata_services.accounting.commands.connection import Connection
    from strata_services.accounting.settings import ServiceUnits


class Row(BaseModel):
    """A row of an answer."""

    model_config = ConfigDict(frozen=True)


class Allocation(Row):
    """What was offered (level node) or allocated (instance, pod) in a month; no holder: the platform itself."""

    month: date
    level: str
    holder: str | None
    cpu_hours: float
    memory_gib_hours: float
    card_hours: float


class Utilisation(Row):
    """What a tenant's pods used in a month, of the hours with measurements."""

    month: date
    tenant: str | None
    cpu_hours: float
    cpu_hours_measured: float
    cpu_hours_used: float
    memory_gib_hours: float
    memory_gib_hours_measured: float
    memory_gib_hours_used: float
    card_hours: float
    card_hours_measured: float
    card_hours_busy: float


class IdleCards(Row):
    """A pod that left its cards idle."""

    tenant: str | None
    username: str | None
    namespace: str
    name: str
    starts: datetime
    ends: datetime | None
    card_hours_measured: float
    card_hours_idle: float


class Energy(Row):
    """Energy of a card in a month."""

    month: date
    node: str
    card: str
    kwh: float


class Work(Row):
    """What a user did: pods, or jobs of the batch system."""

    level: str
    tenant: str | None
    username: str | None
    kind: str
    tasks: int
    hours: float
    cpu_hours: float
    memory_gib_hours: float
    card_hours: float
    service_units: float = 0.0


class OneCardTasks(Row):
    """Requests of tasks with one card, and what half of them and 95 % of them never exceeded."""

    level: str
    tenant: str | None
    kind: str
    tasks: int
    cpus_requested: float
    cpus_p50: float | None
    cpus_p95: float | None
    memory_gib_requested: float
    memory_gib_p50: float | None
    memory_gib_p95: float | None


class Batches(Row):
    """Jobs that a user submitted under one name: what they held at most at one time, from the first start on."""

    tenant: str
    username: str
    batch: str
    tasks: int
    tasks_at_once: int
    cpus_at_once: float
    cards_at_once: int
    memory_gib_at_once: float
    received_gib: float
    cpu_hours_used: float
    starts: datetime
    ends: datetime


class ModelUse(Row):
    """What members of a tenant asked a model: requests that it answered, and their tokens."""

    tenant: str
    model: str
    requests: int
    tokens_in: int
    tokens_out: int


class Sessions(Row):
    """Notebooks in a month."""

    month: date
    users: int
    sessions: int
    most_at_once: int


class Answers(Row):
    """All answers about one window of a site."""

    site: str
    start: datetime
    end: datetime
    tenant: str | None
    allocation: tuple[Allocation, ...]
    utilisation: tuple[Utilisation, ...]
    idle_cards: tuple[IdleCards, ...]
    energy: tuple[Energy, ...]
    work: tuple[Work, ...]
    one_card_tasks: tuple[OneCardTasks, ...]
    batches: tuple[Batches, ...]
    sessions: tuple[Sessions, ...]
    models: tuple[ModelUse, ...]


RowT = TypeVar("RowT", bound=Row)


def incomplete_before(connection: Connection, start: datetime) -> datetime | None:
    """Until when records of a window were removed because of their age; None if none were.

    Args:
        connection: of the database's owner.
        start: of the window.
    """
    with connection.cursor() as cursor:
        if not _has(connection, "removed"):
            return None
        cursor.execute("SELECT max(before) FROM removed WHERE record <> 'measurements' AND before > %s", (start,))
        row = cursor.fetchone()
    return row[0] if row else None


def _has(connection: Connection, table: str) -> bool:
    """Whether the site was brought up by a release that has a table."""
    return connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)


def ask(
    connection: Connection, site: str, start: datetime, end: datetime, tenant: str | None, units: ServiceUnits
) -> Answers:
    """Asks all questions, of one state of the records.

    Args:
        connection: of the database's owner.
        site: its name.
        start: of the window.
        end: of the window, exclusive.
        tenant: only this one's rows; None for all and the platform's own.
        units: what an hour of each resource counts.
    """

    def rows(kind: type[RowT], function: str, order: str, *arguments: Any) -> tuple[RowT, ...]:
        places = ", ".join(["%s"] * len(arguments))
        with connection.cursor(row_factory=class_row(kind)) as cursor:
            # functions and columns are this module's own words
            statement = f"SELECT * FROM {function}({places}) ORDER BY {order}"  # noqa: S608
            return tuple(cursor.execute(statement.encode(), arguments).fetchall())

    window = (start, end, tenant)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return Answers(
            site=site,
            start=start,
            end=end,
            tenant=tenant,
            allocation=rows(Allocation, "allocation", "month, level, holder NULLS LAST", *window),
            utilisation=rows(Utilisation, "utilisation", "month, tenant NULLS LAST", *window),
            idle_cards=rows(IdleCards, "idle_cards", "card_hours_idle DESC, namespace, name", *window),
            energy=rows(Energy, "energy", "month, node, card", start, end) if tenant is None else (),
            work=tuple(
                row.model_copy(update={"service_units": service_units(row, units)})
                for row in rows(Work, "work", "level DESC, tenant NULLS LAST, username NULLS LAST, kind", *window)
            ),
            one_card_tasks=rows(OneCardTasks, "one_card_tasks", "level DESC, tenant NULLS LAST, kind", *window),
            batches=rows(Batches, "batches", "starts, tenant, username, batch", *window),
            sessions=rows(Sessions, "sessions", "month", *window),
            models=rows(ModelUse, "models", "tenant, model", *window) if _has(connection, "model_usage") else (),
        )


def service_units(work: Work, units: ServiceUnits) -> float:
    """What the work counts."""
    return work.cpu_hours * units.core + work.card_hours * units.card + work.memory_gib_hours * units.memory_gib
