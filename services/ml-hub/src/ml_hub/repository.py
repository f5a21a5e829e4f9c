"""One model or dataset: what the catalogue holds of it, and what the site's hub returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from fastapi import HTTPException, Request
from pydantic import ValidationError

from ml_hub import queries
from ml_hub.endpoint import AccessNeeded, EndpointUnavailable
from ml_hub.hub import Fetched, Hub, Kind, Part
from ml_hub.records import KINDS
from ml_hub.repositories import file_path, is_file
from ml_hub.tables import CATALOGUE

SINGULAR = {"models": "model", "datasets": "dataset"}


@dataclass(frozen=True)
class Repository:
    """A model or dataset that exists.

    Args:
        kind: of it.
        id: its id.
        entry: fields of its record; of the catalogue where that holds it, else of the hub.
        info: what the hub returns; empty where there is no hub, or it does not respond.
        metadata: where it comes from, for the response.
    """

    kind: Kind
    id: str
    entry: Mapping[str, Any]
    info: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=lambda: {"source": "catalogue"})

    @property
    def sha(self) -> str | None:
        """Commit that the hub's values are of."""
        return _text(self.info.get("sha"))

    @property
    def files(self) -> list[str] | None:
        """Names of its files; None: unknown."""
        siblings = self.sequence("siblings")
        if siblings is None:
            return None
        names = (sibling.get("rfilename") for sibling in siblings if isinstance(sibling, dict))
        return [name for name in names if is_file(name)]

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object that the hub returns, such as cardData."""
        value = self.info.get(name)
        return value if isinstance(value, dict) else None

    def sequence(self, name: str) -> list[Any] | None:
        """A list that the hub returns, such as widgetData."""
        value = self.info.get(name)
        return value if isinstance(value, list) else None

    def links(self, url: str) -> dict[str, str]:
        """Where to download its files.

        Args:
            url: of the hub, without a slash at its end.
        """
        return {f: f"{url}/{file_path(self.kind, self.id, f, self.sha or 'main')}" for f in self.files or []}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def hub_of(request: Request) -> Hub:
    """The hub of the application."""
    hub: Hub = request.app.state.hub
    return hub


async def read_hub(request: Request, kind: Kind, repository: str, part: Part) -> Fetched | None:
    """As `Hub.read`.

    Raises:
        HTTPException: 403 where the hub wants an access of the user's own, 503 where it does not respond.
    """
    hub = hub_of(request)
    try:
        return await hub.read(request.app.state.engine, kind, repository, part)
    except AccessNeeded as error:
        detail = (
            f"{repository!r} is gated: its owners grant access to accounts of the hub; "
            f"ask for it at {hub.public_url}, then download with your own token"
        )
        raise HTTPException(403, detail) from error
    except EndpointUnavailable as error:
        detail = f"the hub does not respond, and {repository!r} was not read before; try again"
        raise HTTPException(503, detail, headers={"Retry-After": "30"}) from error


async def find(request: Request, kind: Kind, repository: str) -> Repository:
    """One model or dataset.

    Raises:
        HTTPException: 404 where neither the catalogue nor the hub has it, 503 where the hub alone could have it and
            does not respond.
    """
    async with request.app.state.engine.connect() as connection:
        row = await queries.get_entry(connection, CATALOGUE[kind], repository)
    known = None if row is None else dict(row)
    try:
        info = await read_hub(request, kind, repository, "info")
    except HTTPException as error:
        if known is None:
            raise
        silent = error.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        return Repository(kind, repository, known, metadata={"source": "catalogue", "stale": silent})
    if info is None or info.content is None:
        if known is None:
            noun = SINGULAR[kind]
            raise HTTPException(404, f"there is no {noun} {repository!r}; /v3/ml-hub/{kind}?search= finds its name")
        return Repository(kind, repository, known)
    entry = known if known is not None else _record(kind, repository, info.content)
    return Repository(kind, repository, entry, info.content, info.described)


def _record(kind: Kind, repository: str, info: dict[str, Any]) -> dict[str, Any]:
    """Fields of a record, of what the hub returns; those of a faulty answer are left out."""
    card, tags = info.get("cardData"), info.get("tags")
    names = ("_id", "author", "disabled", "gated", "private", "pipeline_tag", "library_name", "description", "citation",
             "paperswithcode_id")  # fmt: skip
    values = {name: info.get(name) for name in names}
    values |= {
        "id": repository,
        "tags": tags if isinstance(tags, list) else [],
        "card_data": SimpleNamespace(language=_languages(card)) if isinstance(card, dict) else None,
        "downloads": info.get("downloads"),
        "likes": info.get("likes"),
        "created_at": info.get("createdAt"),
        "last_modified": info.get("lastModified"),
    }
    record = KINDS[kind]
    try:
        made = record.from_hub(SimpleNamespace(**values))  # type: ignore[arg-type]  # the attributes that it reads
    except ValidationError:
        made = record(id=repository)
    return made.model_dump()


def _languages(card: dict[str, Any]) -> str | list[Any] | None:
    language = card.get("language")
    return language if isinstance(language, str | list) else None
