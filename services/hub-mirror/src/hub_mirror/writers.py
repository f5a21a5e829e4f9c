"""Who publishes where: members of a tenant, below the tenant's name."""

from __future__ import annotations

from hub_mirror.cards import find_published
from hub_mirror.mirror import Mirror
from hub_mirror.names import Repository
from hub_mirror.published import Published
from hub_mirror.readers import Reader
from hub_mirror.refusals import refusal, unauthorized


def username(who: Reader) -> str:
    """Of the caller; empty without a token of the site."""
    return who.caller.username if who.caller else ""


def own_tenants(mirror: Mirror, who: Reader) -> list[str]:
    """Those of the caller's that have repositories here."""
    return [tenant for tenant in who.tenants if tenant in mirror.settings.tenants]


def check_token(who: Reader) -> None:
    """Refuses callers without a token of the site.

    Raises:
        HTTPException: 401.
    """
    if who.caller is None:
        raise unauthorized("publishing needs a token of the site: Authorization: Bearer …")


def check_member(mirror: Mirror, who: Reader, target: Repository) -> None:
    """Refuses callers who are not members of the repository's tenant.

    Raises:
        HTTPException: 401 without a token of the site, 403.
    """
    check_token(who)
    if not mirror.is_tenants(target) or target.namespace not in who.tenants:
        mine = ", ".join(own_tenants(mirror, who)) or "none"
        raise refusal(403, f"you are not a member of a tenant {target.namespace or target.id}: yours are {mine}")


async def writable(mirror: Mirror, who: Reader, target: Repository) -> Published:
    """A repository that the caller may write.

    Raises:
        HTTPException: 401 without a token of the site, 403 for one of another tenant, 404.
    """
    check_token(who)
    if not mirror.is_tenants(target):
        raise refusal(403, f"{target.id} is a repository of the Hub: publish below the name of your tenant")
    record = await find_published(mirror, who, target)
    check_member(mirror, who, target)
    return record
