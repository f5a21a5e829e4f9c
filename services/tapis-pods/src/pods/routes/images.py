"""Images that tenants may run: of the site's settings, and those that tenants' administrators add."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import tables
from pods.access import Person
from pods.images import LONGEST, Image, full_name
from pods.routes.pods import IN_USE, MISSING, settings_of
from pods.settings import Settings
from pods.values import Text
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success
from strata_http.tokens import Caller

router = APIRouter(prefix="/pods/images", tags=["images"])
ImageName = Annotated[Text, Path(min_length=1, max_length=LONGEST, description="Repository, as the list has it.")]


class NewImage(BaseModel):
    """Body of POST."""

    model_config = ConfigDict(extra="forbid")

    image: Annotated[Text, Field(max_length=LONGEST, description="Repository; one that ends with / allows all below.")]
    tenants: Annotated[list[Text], Field(max_length=100, description="Default: all that you administer.")] = Field(
        default_factory=list
    )
    description: Annotated[Text, Field(max_length=254)] = ""


class ImageResult(BaseModel):
    """An image of the list."""

    image: str
    tenants: list[str] = Field(description="Those of yours that may run it.")
    description: str = ""
    creation_ts: datetime | None = Field(default=None, description="null: it is in the site's settings.")
    added_by: str = Field(default="", description="Empty: the site.")


def _repository(text: str) -> str:
    """Of an entry.

    Raises:
        HTTPException: 400.
    """
    folder = text.endswith("/")
    try:
        image = Image.parse(f"{text}any" if folder else text)
    except ValueError as error:
        raise HTTPException(400, f"image: {text[:200]} {error}") from None
    if folder:
        return image.repository.removesuffix("any")
    if full_name(text) != image.repository:
        raise HTTPException(400, f"image: {text[:200]} names a tag or a digest, and all of a repository's are allowed")
    return image.repository


async def _visible(connection: AsyncConnection, settings: Settings, caller: Caller) -> list[ImageResult]:
    own = [name for name in caller.tenants if name in settings.tenants]
    by_name: dict[str, ImageResult] = {}
    for tenant in own:
        for image in settings.tenants[tenant].images:
            by_name.setdefault(image, ImageResult(image=image, tenants=[])).tenants.append(tenant)
    query = select(*tables.images.columns).where(tables.images.c.tenant.in_(own))
    for row in (await connection.execute(query.order_by(tables.images.c.image, tables.images.c.tenant))).mappings():
        shown = {name: row[name] for name in ("image", "description", "creation_ts", "added_by")}
        result = by_name.setdefault(row["image"], ImageResult(tenants=[], **shown))
        if row["tenant"] not in result.tenants:
            result.tenants.append(row["tenant"])
    return [by_name[name] for name in sorted(by_name)]


def _administered(settings: Settings, caller: Caller) -> list[str]:
    tenants = [name for name in caller.administered_tenants if name in settings.tenants]
    if not tenants:
        raise HTTPException(403, "images are changed by administrators of a tenant, who are in /tenants/<name>/admins")
    return tenants


async def _add(connection: AsyncConnection, settings: Settings, caller: Caller, given: NewImage) -> ImageResult | None:
    """An image for tenants; None where all of them have it."""
    own, image = _administered(settings, caller), _repository(given.image)
    for tenant in given.tenants:
        if tenant not in own:
            raise HTTPException(403, f"tenants: you do not administer {tenant[:100]}, only {', '.join(own)}")
    chosen = dict.fromkeys(given.tenants or own)
    new = [name for name in chosen if image not in settings.tenants[name].images]
    if not new:
        return None
    rows = [
        {"image": image, "tenant": tenant, "description": given.description, "added_by": caller.username}
        for tenant in new
    ]
    statement = insert(tables.images).values(rows).on_conflict_do_nothing().returning(tables.images.c.creation_ts)
    added = (await connection.execute(statement)).scalars().all()
    if not added:
        return None
    return ImageResult(
        image=image,
        tenants=list(chosen),
        description=given.description,
        creation_ts=added[0],
        added_by=caller.username,
    )


@router.get("", operation_id="get_images", summary="Images that your tenants may run")
async def get_images(request: Request, caller: Person, connection: Connection) -> Envelope[list[ImageResult]]:
    """By name."""
    images = await _visible(connection, settings_of(request), caller)
    return success(request, "Images retrieved successfully.", images, count=len(images))


@router.post("", operation_id="add_image", summary="Allow an image", responses=MISSING | IN_USE)
async def add_image(
    request: Request, caller: Person, given: NewImage, connection: Transaction
) -> Envelope[ImageResult]:
    """For administrators of a tenant, in their tenants."""
    describe(request, Change("images.add", f"images/{given.image[:LONGEST]}"))
    added = await _add(connection, settings_of(request), caller, given)
    if added is None:
        raise HTTPException(409, f"image: {given.image} is on the list already")
    return success(request, "Image added successfully.", added)


@router.post("/bulk", operation_id="add_images", summary="Allow images", responses=MISSING | IN_USE)
async def add_images(
    request: Request,
    caller: Person,
    given: Annotated[list[NewImage], Field(min_length=1, max_length=100)],
    connection: Transaction,
    skip_duplicates: Annotated[bool, Query(description="Leave those out that are on the list.")] = False,
) -> Envelope[list[ImageResult]]:
    """All or none; those that were added."""
    describe(request, Change("images.add", "images"))
    results = [await _add(connection, settings_of(request), caller, image) for image in given]
    if None in results and not skip_duplicates:
        name = given[results.index(None)].image
        raise HTTPException(409, f"image: {name} is on the list already; skip_duplicates=true leaves it out")
    return success(request, "Images added successfully.", [result for result in results if result is not None])


@router.get("/{image_id:path}", operation_id="get_image", summary="An image", responses=MISSING)
async def get_image(
    request: Request, caller: Person, image_id: ImageName, connection: Connection
) -> Envelope[ImageResult]:
    """If one of your tenants may run it."""
    for image in await _visible(connection, settings_of(request), caller):
        if image.image == image_id or image.image == full_name(image_id):
            return success(request, "Image retrieved successfully.", image)
    raise HTTPException(404, f"image {image_id} is not on the list of your tenants")


@router.delete(
    "/{image_id:path}", operation_id="delete_image", summary="Allow an image no longer", responses=MISSING | IN_USE
)
async def delete_image(request: Request, caller: Person, image_id: ImageName, connection: Transaction) -> Envelope[str]:
    """For administrators, in all their tenants; pods that run it go on until they are restarted."""
    settings = settings_of(request)
    describe(request, Change("images.delete", f"images/{image_id}"))
    own, name = _administered(settings, caller), full_name(image_id)
    matching = (tables.images.c.image == name, tables.images.c.tenant.in_(own))
    removed = await connection.execute(delete(tables.images).where(*matching))
    if removed.rowcount == 0:
        if any(name in settings.tenants[tenant].images for tenant in own):
            raise HTTPException(
                409, f"image {image_id} is in the site's settings, and can be removed in site.yaml only"
            )
        raise HTTPException(404, f"image {image_id} is not on the list of {', '.join(own)}")
    return success(request, "Image deleted successfully.", "")
