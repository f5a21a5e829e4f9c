"""Notes: the table, and the routes that list, write and delete them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import BigInteger, DateTime, Text, column, delete, insert, select, table
from strata_http.audit import Change, describe
from strata_http.bearer import require_token
from strata_http.database import Connection
from strata_http.pages import PageQuery, fetch_page
from strata_http.problems import forbidden, not_found
from strata_http.tokens import Caller
from strata_http.values import Response
from strata_http.values import Text as Words

router = APIRouter(tags=["notes"])
notes = table(
    "notes",
    column("number", BigInteger),
    column("tenant", Text),
    column("author", Text),
    column("text", Text),
    column("written_at", DateTime(timezone=True)),
)
Who = Annotated[Caller, Depends(require_token)]
Number = Annotated[int, Path(ge=1, lt=2**63, description="Of the note.")]


class NewNote(BaseModel):
    """A note as it is written."""

    model_config = ConfigDict(extra="forbid")

    tenant: Words = Field(description="A tenant of the caller.", examples=["research"])
    text: Words = Field(examples=["The sequencer is back on Monday."])


class Note(Response):
    """A note as it is kept."""

    number: int
    tenant: str
    author: str = Field(description="User who wrote it.", examples=["ada"])
    text: str
    written_at: datetime


class NoteList(Response):
    """One page of notes, newest first."""

    items: list[Note]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last.")


@router.get("/notes", summary="Notes of the caller's tenants")
async def list_notes(connection: Connection, who: Who, page: PageQuery) -> NoteList:
    """The newest first; a caller without a tenant sees none."""
    query = select(notes).where(notes.c.tenant.in_(who.tenants))
    if page.after is not None:
        query = query.where(page.after.after(notes.c.number, notes.c.tenant))
    query = query.order_by(notes.c.number.desc(), notes.c.tenant)
    rows, following = await fetch_page(connection, query, page.limit, "number", "tenant")
    items = [Note.model_validate(dict(row)) for row in rows]
    return NoteList(items=items, next_cursor=following.encode() if following else None)


@router.post(
    "/notes", status_code=201, summary="Write a note", responses=forbidden("The caller is not a member of the tenant.")
)
async def write_note(request: Request, connection: Connection, who: Who, note: NewNote) -> Note:
    """All members of the tenant can read and delete it."""
    describe(request, Change("notes.create", tenant=note.tenant))
    if note.tenant not in who.tenants:
        raise HTTPException(403, f"you are not a member of a tenant {note.tenant!r}")
    values = {"tenant": note.tenant, "author": who.username, "text": note.text}
    row = (await connection.execute(insert(notes).values(values).returning(notes))).mappings().one()
    describe(request, Change("notes.create", f"notes/{row['number']}", note.tenant))
    return Note.model_validate(dict(row))


@router.delete(
    "/notes/{number}",
    status_code=204,
    summary="Delete a note",
    responses=not_found("There is no such note in the caller's tenants."),
)
async def delete_note(request: Request, connection: Connection, who: Who, number: Number) -> None:
    """Another tenant's note is as unknown as one that was never written."""
    describe(request, Change("notes.delete", f"notes/{number}"))
    mine = (notes.c.number == number) & notes.c.tenant.in_(who.tenants)
    tenant = (await connection.execute(delete(notes).where(mine).returning(notes.c.tenant))).scalar_one_or_none()
    if tenant is None:
        raise HTTPException(404, f"your tenants have no note {number}")
    describe(request, Change("notes.delete", f"notes/{number}", tenant))
