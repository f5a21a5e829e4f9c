"""Command line: `python -m example serve | migrate`."""

from __future__ import annotations

import pathlib
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Request
from pydantic_settings import SettingsConfigDict
from sqlalchemy import text

from strata_http import commands, server
from strata_http.addresses import client_address
from strata_http.app import Api, create_app
from strata_http.audit import Change, describe
from strata_http.bearer import require_token
from strata_http.database import Connection
from strata_http.migrations import Migrations
from strata_http.problems import forbidden, not_found
from strata_http.rate_limits import limit_address, limit_name
from strata_http.settings import DatabaseSettings, ServeSettings
from strata_http.tokens import Caller

MIGRATIONS = Migrations(pathlib.Path(__file__).parent / "versions")
cli = commands.create_cli(__doc__)
Tenant = Annotated[str, Path(examples=["hep"])]
REFUSED = forbidden("Another tenant's.") | not_found("No such note.")
router, public = APIRouter(), APIRouter()


class Database(DatabaseSettings):
    """Of `migrate`."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")


class Settings(ServeSettings):
    """Of `serve`."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    audience: str = "example"


@router.get("/caller")
def caller(who: Annotated[Caller, Depends(require_token)]) -> dict[str, object]:
    """Who is calling."""
    tenants = {"tenants": who.tenants, "administered": who.administered_tenants}
    return {"subject": who.subject, "username": who.username, **tenants}


@router.get("/greeting")
async def greeting(connection: Connection) -> str:
    """The row."""
    return str((await connection.execute(text("SELECT text FROM greetings"))).scalar_one())


@router.get("/numbers/{number}")
def divide(number: int) -> float:
    """Fails for 0."""
    return 1 / number


@router.get("/tenants/{tenant}/notes/{number}")
def read_note(tenant: Tenant, number: int) -> str:
    """Another route of the same path."""
    return f"{tenant}'s note {number}"


@router.delete("/tenants/{tenant}/notes/{number}", status_code=204, responses=REFUSED)
async def delete_note(
    request: Request, who: Annotated[Caller, Depends(require_token)], tenant: Tenant, number: int
) -> None:
    """Changes nothing, but reports it."""
    describe(request, Change("notes.delete", f"notes/{number}", tenant))
    if tenant not in who.tenants:
        raise HTTPException(403, f"you are not a member of the tenant {tenant}")
    if number > 9:
        raise HTTPException(404, "there is no such note")


@public.post("/logins", dependencies=[Depends(limit_address("3/hour"))])
async def log_in(request: Request, name: str) -> str:
    """Needs no token; twice for a name, three times for an address."""
    await limit_name(request, "2/hour", name)
    return client_address(request)


@cli.command()
def serve() -> None:
    """Serve the API."""
    settings = commands.read_settings(Settings)
    api = Api("Example", "1", "An example.", "/v1", (router,), MIGRATIONS, public_routers=(public,))
    server.serve(create_app(api, settings), settings)


@cli.command()
def migrate() -> None:
    """Bring the database to this release's version."""
    commands.migrate(commands.read_settings(Database), MIGRATIONS)


if __name__ == "__main__":
    cli()
