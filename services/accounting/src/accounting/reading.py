"""What members of tenants read over HTTP: PostgREST's filters, and rows by the caller's token alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from pydantic import AwareDatetime, FiniteFloat, TypeAdapter
from pydantic import ValidationError as Invalid

from accounting.settings import DatabaseSettings
from accounting.store import Connection
from strata_http.tokens import Caller

STATEMENT_SECONDS = 5
OPERATORS = {"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_TEXT, _NUMBER, _TIME = TypeAdapter(str), TypeAdapter(FiniteFloat), TypeAdapter(AwareDatetime)


class Problem(Exception):
    """An answer that is an error, in PostgREST's form.

    Args:
        status: of HTTP.
        code: PostgREST's or PostgreSQL's.
        message: what is wrong where.
        hint: what to do.
    """

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint


@dataclass(frozen=True)
class Table:
    """A table or view that shows a caller's rows only.

    Args:
        name: in the database and in the path.
        columns: what each is compared with; None: not compared.
        order: the column that rows are in the order of unless asked.
    """

    name: str
    columns: Mapping[str, TypeAdapter[Any] | None]
    order: str


MEASUREMENT = Table(
    "measurement",
    {
        "id": TypeAdapter(int),
        "tenant": _TEXT,
        "username": _TEXT,
        "name": _TEXT,
        "value": _NUMBER,
        "unit": _TEXT,
        "at": _TIME,
        "labels": None,
    },
    "id",
)
OWN_POD = Table(
    "own_pod",
    {
        "tenant": _TEXT,
        "namespace": _TEXT,
        "name": _TEXT,
        "kind": _TEXT,
        "starts": _TIME,
        "ends": _TIME,
        "cpus": _NUMBER,
        "memory_gib": _NUMBER,
        "cards": TypeAdapter(int),
        "card": _TEXT,
        "cpu_hours": _NUMBER,
        "memory_gib_hours": _NUMBER,
        "card_hours": _NUMBER,
        "cpu_hours_used": _NUMBER,
        "card_hours_busy": _NUMBER,
    },
    "starts",
)
TENANT_MODEL_USAGE = Table(
    "tenant_model_usage",
    {
        "hour": _TIME,
        "tenant": _TEXT,
        "model": _TEXT,
        "requests": TypeAdapter(int),
        "tokens_in": TypeAdapter(int),
        "tokens_out": TypeAdapter(int),
    },
    "hour",
)
TABLES = {table.name: table for table in (MEASUREMENT, OWN_POD, TENANT_MODEL_USAGE)}


def select(
    settings: DatabaseSettings, caller: Caller, table: Table, parameters: Iterable[tuple[str, str]], maximum_rows: int
) -> str:
    """What the caller may read and asks for, as a JSON list.

    Raises:
        Problem: a parameter is wrong; names it.
    """
    conditions: list[sql.Composable] = [sql.SQL("true")]
    values: list[object] = []
    order: list[sql.Composable] = [sql.Identifier(table.order)]
    limit = maximum_rows
    for key, value in parameters:
        if key == "order":
            order = [_order(table, part) for part in value.split(",")]
        elif key == "limit":
            if not value.isascii() or not value.isdigit() or not 0 <= int(value[:9]) <= maximum_rows:
                raise Problem(400, "PGRST100", f"limit: {value[:80]!r}", f"a number up to {maximum_rows}")
            limit = int(value)
        else:
            condition, operand = _condition(table, key, value)
            conditions.append(condition)
            values.append(operand)
    statement = sql.SQL(
        "SELECT coalesce(json_agg(found), '[]')::text FROM "
        "(SELECT {columns} FROM {table} WHERE {conditions} ORDER BY {order} LIMIT {limit}) AS found"
    ).format(
        columns=sql.SQL(", ").join(map(sql.Identifier, table.columns)),
        table=sql.Identifier(table.name),
        conditions=sql.SQL(" AND ").join(conditions),
        order=sql.SQL(", ").join(order),
        limit=sql.Literal(limit),
    )
    with as_caller(settings, caller) as connection:
        row = connection.execute(statement, values).fetchone()
    return str(row[0]) if row else "[]"


def _order(table: Table, part: str) -> sql.Composable:
    column, _, direction = part.partition(".")
    if table.columns.get(column) is None or direction not in ("", "asc", "desc"):
        example = column if table.columns.get(column) else table.order
        raise Problem(400, "PGRST100", f"order: {part[:80]!r}", f"for instance order={example}.desc,name")
    return sql.SQL("{} DESC" if direction == "desc" else "{}").format(sql.Identifier(column))


def _condition(table: Table, key: str, value: str) -> tuple[sql.Composable, object]:
    adapter = table.columns.get(key)
    if adapter is None:
        known = [column for column, adapter in table.columns.items() if adapter is not None]
        hint = f"order, limit, or one of the columns {', '.join(known)}"
        raise Problem(400, "42703", f"{key[:80]}: is not a parameter", hint)
    operator, dot, operand = value.partition(".")
    if operator not in OPERATORS or not dot:
        raise Problem(400, "PGRST100", f"{key}: {value[:80]!r} has no operator", f"for instance {key}=eq.{value[:80]}")
    try:
        checked = adapter.validate_python(operand)
    except Invalid as error:
        hint = (
            "for instance 2026-11-23T08:00:00Z; a + in a URL is %2B" if adapter is _TIME else f"another value for {key}"
        )
        message = error.errors(include_url=False, include_context=False)[0]["msg"]
        raise Problem(400, "22P02", f"{key}: {operand[:80]!r}: {message}", hint) from None
    comparison = sql.SQL(f"{{}} {OPERATORS[operator]} %s")
    return comparison.format(sql.Identifier(key)), checked


@contextmanager
def as_caller(settings: DatabaseSettings, caller: Caller) -> Iterator[Connection]:
    """A transaction in which row-level security knows the caller."""
    with settings.connect() as connection, connection.transaction():
        connection.execute(
            "SELECT set_config('accounting.tenants', %s, true), set_config('accounting.username', %s, true), "
            "set_config('timezone', 'UTC', true), set_config('statement_timeout', %s, true)",
            (",".join(caller.tenants), caller.username, f"{STATEMENT_SECONDS}s"),
        )
        yield connection
