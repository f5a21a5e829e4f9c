"""The site and its tenant. They need no token, and read none: a faulty one must not keep a client from its login."""

from __future__ import annotations

from typing import Annotated, Literal

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, Field

from authenticator.settings import Settings
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.tokens import TokenVerifier

ALGORITHM = "RS256"
router = APIRouter(tags=["sites"])
Limit = Annotated[int, Query(ge=1, le=1000, description="Most entries.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="Entries left out at the begin.")]
Identifier = Annotated[str, PathParameter(max_length=63, examples=["lab"])]


class Site(BaseModel):
    """A site of Tapis: this one."""

    site_id: str = Field(examples=["lab"])
    base_url: str = Field(examples=["https://api.lab.example.org"])
    primary: Literal[True] = True
    services: list[str] = Field(description="What the API has.", examples=[["authenticator"]])
    site_admin_tenant_id: str = Field(examples=["lab"])


class Tenant(BaseModel):
    """A tenant of Tapis: the whole site, whose projects share its users and its keys."""

    tenant_id: str = Field(examples=["lab"])
    site_id: str = Field(examples=["lab"])
    base_url: str = Field(description="Without a slash at its end.", examples=["https://api.lab.example.org"])
    status: Literal["active"] = "active"
    description: str = Field(examples=["Strata site lab"])
    authenticator: str = Field(examples=["https://api.lab.example.org/v3/oauth2"])
    public_key: str = Field(
        description="PEM of the key that the issuer signs with (RS256); empty while the issuer has not responded yet."
    )


@router.get("/sites", summary="List the sites")
async def list_sites(request: Request, limit: Limit = 1000, offset: Offset = 0) -> Envelope[list[Site]]:
    """There is one."""
    sites = [_site(request)][offset : offset + limit]
    return success(request, "Sites retrieved successfully.", sites)


@router.get("/sites/{site_id}", summary="Get a site", responses=ENVELOPE.described({404: "No such site."}))
async def get_site(request: Request, site_id: Identifier) -> Envelope[Site]:
    """By its id."""
    site = _site(request)
    if site_id != site.site_id:
        raise HTTPException(404, f"there is no site {site_id}: this is {site.site_id}")
    return success(request, "Site retrieved successfully.", site)


@router.get("/tenants", summary="List the tenants")
def list_tenants(request: Request, limit: Limit = 1000, offset: Offset = 0) -> Envelope[list[Tenant]]:
    """There is one."""
    tenants = [_tenant(request)][offset : offset + limit]
    return success(request, "Tenants retrieved successfully.", tenants)


@router.get("/tenants/{tenant_id}", summary="Get a tenant", responses=ENVELOPE.described({404: "No such tenant."}))
def get_tenant(request: Request, tenant_id: Identifier) -> Envelope[Tenant]:
    """By its id."""
    settings: Settings = request.app.state.settings
    if tenant_id != settings.site:
        raise HTTPException(404, f"there is no tenant {tenant_id}: this is {settings.site}")
    return success(request, "Tenant retrieved successfully.", _tenant(request))


def _site(request: Request) -> Site:
    settings: Settings = request.app.state.settings
    return Site(
        site_id=settings.site,
        base_url=settings.tenant_url,
        services=list(settings.services),
        site_admin_tenant_id=settings.site,
    )


def _tenant(request: Request) -> Tenant:
    settings: Settings = request.app.state.settings
    verifier: TokenVerifier = request.app.state.verifier
    key = verifier.keys.current(ALGORITHM)
    pem = key.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode() if key else ""
    return Tenant(
        tenant_id=settings.site,
        site_id=settings.site,
        base_url=settings.tenant_url,
        description=f"Strata site {settings.site}",
        authenticator=f"{settings.tenant_url}/v3/oauth2",
        public_key=pem,
    )
