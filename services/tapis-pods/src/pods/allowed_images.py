"""The images that a tenant may run: the site's settings, and what the tenant's administrators add by the API."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.images import ImageList
from pods.settings import Tenant
from pods.tables import images


async def allowed_images(connection: AsyncConnection, tenant: Tenant) -> ImageList:
    """Of one tenant, as they are now."""
    query = select(images.c.image).where(images.c.tenant == tenant.name).order_by(images.c.image)
    added = (await connection.execute(query)).scalars()
    return ImageList(tuple(dict.fromkeys((*tenant.images, *added))))
