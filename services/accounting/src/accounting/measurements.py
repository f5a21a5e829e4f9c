"""Users' measurements: PostgREST's filters, and row-level security by the caller's tenants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from psycopg import sql
from psycopg.types.json import Jsonb
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, TypeAdapter
from pydantic import ValidationError as Invalid

from accounting.settings import DatabaseSettings
from accounting.store import Connection
from strata_http.tokens import Caller

TABLE = "measurement"
STATEMENT_SECONDS = 5
OPERATORS = {"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
COLUMNS: dict[str, TypeAdapter[Any] | None] = {
    "id": TypeAdapter(int),
    "tenant": TypeAdapter(str),
    "username": TypeAdapter(str),
    "name": TypeAdapter(str),
    "value": TypeAdapter(FiniteFloat),
    "unit": TypeAdapter(str),
    "at": TypeAdapter(AwareDatetime),
    "labels": None,
}
"""What each is compared with; labels are not compared."""
Label = Annotated[str, StringConstraints(max_length=200)]


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


class Measurement(BaseModel):
    """One row of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tenant: str | None = None
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    value: FiniteFloat
    unit: Annotated[str, StringConstraints(max_length=50)] = ""
    at: AwareDatetime | None = None
    labels: Annotated[dict[Label, Label], Field(max_length=32)] = {}


_ONE, _MANY = TypeAdapter(Measurement), TypeAdapter(list[Measurement])


def read(body: bytes, maximum_rows: int) -> list[Measurement]:
    """The rows of a request.

    Raises:
        Problem: it is not JSON, a row is wrong, or there are too many.
    """
    try:
        many = body.lstrip()[:1] == b"["
        rows = _MANY.validate_json(body) if many else [_ONE.validate_json(body)]
    except Invalid as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        given = f", not {str(first['input'])[:80]!r}" if isinstance(first["input"], str | int | float) else ""
        hint = 'a row: {"name": "loss", "value": 0.25}; optional: tenant, unit, at (with time zone), labels (strings)'
        raise Problem(400, "PGRST102", f"{where or 'body'}: {first['msg']}{given}", hint) from None
    if len(rows) > maximum_rows:
        raise Problem(413, "PGRST102", f"body: has {len(rows)} rows", f"send at most {maximum_rows} in a request")
    return rows


def insert(settings: DatabaseSettings, caller: Caller, rows: Iterable[Measurement]) -> None:
    """Adds rows of the caller, all or none.

    Raises:
        Problem: no tenant is named, and the caller is not a member of exactly one.
        psycopg.errors.InsufficientPrivilege: a tenant is not the caller's.
    """
    values = [
        (row.tenant or _tenant(caller), caller.username, row.name, row.value, row.unit, row.at, Jsonb(row.labels))
        for row in rows
    ]
    with _as(settings, caller) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO measurement (tenant, username, name, value, unit, at, labels) "
            "VALUES (%s, %s, %s, %s, %s, coalesce(%s, now()), %s)",
            values,
        )


def select(settings: DatabaseSettings, caller: Caller, parameters: Iterable[tuple[str, str]], maximum_rows: int) -> str:
    """What the caller may read and asks for, as a JSON list.

    Raises:
        Problem: a parameter is wrong; names it.
    """
    conditions: list[sql.Composable] = [sql.SQL("true")]
    values: list[object] = []
    order: list[sql.Composable] = [sql.SQL("id")]
    limit = maximum_rows
    for key, value in parameters:
        if key == "order":
            order = [_order(part) for part in value.split(",")]
        elif key == "limit":
            if not value.isascii() or not value.isdigit() or not 0 <= int(value[:9]) <= maximum_rows:
                raise Problem(400, "PGRST100", f"limit: {value[:80]!r}", f"a number up to {maximum_rows}")
            limit = int(value)
        else:
            condition, operand = _condition(key, value)
            conditions.append(condition)
            values.append(operand)
    statement = sql.SQL(
        "SELECT coalesce(json_agg(found), '[]')::text FROM "
        "(SELECT {columns} FROM measurement WHERE {conditions} ORDER BY {order} LIMIT {limit}) AS found"
    ).format(
        columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
        conditions=sql.SQL(" AND ").join(conditions),
        order=sql.SQL(", ").join(order),
        limit=sql.Literal(limit),
    )
    with _as(settings, caller) as connection:
        row = connection.execute(statement, values).fetchone()
    return str(row[0]) if row else "[]"


def _tenant(caller: Caller) -> str:
    if len(caller.tenants) == 1:
        return caller.tenants[0]
    if not caller.tenants:
        raise Problem(403, "42501", "tenant: the token's holder is a member of none", "ask a principal investigator")
    raise Problem(400, "PGRST102", "tenant: is missing", f"one of {', '.join(caller.tenants)} in each row")


def _order(part: str) -> sql.Composable:
    column, _, direction = part.partition(".")
    if COLUMNS.get(column) is None or direction not in ("", "asc", "desc"):
        raise Problem(400, "PGRST100", f"order: {part[:80]!r}", "for instance order=at.desc,name")
    return sql.SQL("{} DESC" if direction == "desc" else "{}").format(sql.Identifier(column))


def _condition(key: str, value: str) -> tuple[sql.Composable, object]:
    adapter = COLUMNS.get(key)
    if adapter is None:
        known = [column for column, found in COLUMNS.items() if found is not None]
        hint = f"order, limit, or one of the columns {', '.join(known)}"
        raise Problem(400, "42703", f"{key[:80]}: is no parameter", hint)
    operator, dot, operand = value.partition(".")
    if operator not in OPERATORS or not dot:
        raise Problem(400, "PGRST100", f"{key}: {value[:80]!r} has no operator", f"for instance {key}=eq.{value[:80]}")
    try:
        checked = adapter.validate_python(operand)
    except Invalid as error:
        hint = "for instance 2026-11-23T08:00:00Z; a + in a URL is %2B" if key == "at" else f"another value for {key}"
        message = error.errors(include_url=False, include_context=False)[0]["msg"]
        raise Problem(400, "22P02", f"{key}: {operand[:80]!r}: {message}", hint) from None
    comparison = sql.SQL(f"{{}} {OPERATORS[operator]} %s")
    return comparison.format(sql.Identifier(key)), checked


@contextmanager
def _as(settings: DatabaseSettings, caller: Caller) -> Iterator[Connection]:
    """A transaction in which row-level security knows the caller."""
    with settings.connect() as connection, connection.transaction():
        connection.execute(
            "SELECT set_config('accounting.tenants', %s, true), set_config('accounting.username', %s, true), "
            "set_config('timezone', 'UTC', true), set_config('statement_timeout', %s, true)",
            (",".join(caller.tenants), caller.username, f"{STATEMENT_SECONDS}s"),
        )
        yield connection
