"""Users' measurements: rows that members of tenants add."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from psycopg.types.json import Jsonb
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, TypeAdapter
from pydantic import ValidationError as Invalid

from accounting.reading import Problem, as_caller
from accounting.settings import DatabaseSettings
from strata_http.tokens import Caller

Label = Annotated[str, StringConstraints(max_length=200)]


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
    with as_caller(settings, caller) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO measurement (tenant, username, name, value, unit, at, labels) "
            "VALUES (%s, %s, %s, %s, %s, coalesce(%s, now()), %s)",
            values,
        )


def _tenant(caller: Caller) -> str:
    if len(caller.tenants) == 1:
        return caller.tenants[0]
    if not caller.tenants:
        raise Problem(403, "42501", "tenant: the token's holder is a member of none", "ask a principal investigator")
    raise Problem(400, "PGRST102", "tenant: is missing", f"one of {', '.join(caller.tenants)} in each row")
