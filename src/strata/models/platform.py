"""The platform layer: tenants and services, as Helm releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, create_model

from strata.catalogue.discovery import load
from strata.models.accelerators import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.types import Audience, Count, DnsLabel, GroupId, HttpsUrl, IssuerUrl, SiteFile, Size


class TenantQuota(Model):
    """Most that a tenant's pods may ask for."""

    layer: ClassVar[str] = "platform"
    cpu: Annotated[Count, Unit("CPUs"), Field(description="CPUs that all pods may ask for.")]
    memory: Annotated[Size, Field(description="Memory that all pods may ask for.")]
    accelerators: Annotated[
        AcceleratorCounts, Unit("cards"), Field(description="Cards that all pods may ask for, by kind.")
    ] = Field(default_factory=dict)


class Tenant(Model):
    """A group of users with a namespace of its own."""

    layer: ClassVar[str] = "platform"
    name: Annotated[DnsLabel, Field(description="Name of the namespace.")]
    quota: Annotated[TenantQuota, Field(description="Most that its pods may ask for.")]
    group_id: Annotated[
        GroupId | None,
        Field(description="Numeric group that owns its folders on NFS exports with `tenants: true`, which need it."),
    ] = None


class ExternalIssuer(Model):
    """An identity provider of the organisation, whose JSON Web Tokens services accept."""

    layer: ClassVar[str] = "platform"
    url: Annotated[IssuerUrl, Field(description="The `iss` claim of its tokens, exactly, a last slash included.")]
    audience: Annotated[
        Audience | None,
        Field(description="What the `aud` claim of tokens must hold. Default: the name of each service."),
    ] = None
    jwks_url: Annotated[
        HttpsUrl | None,
        Field(description="Where it publishes its keys. Default: as its /.well-known/openid-configuration says."),
    ] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="PEM file of the authority that signed its certificate, relative to the site file. "
            "Default: the authorities of the service's image.",
        ),
    ] = None


class ServicesSection(Model):
    """Services of the platform; one that is not named is not installed."""

    layer: ClassVar[str] = "platform"
    external_issuer: Annotated[
        ExternalIssuer | None, Field(description="Issuer of tokens outside of the site, in place of a service.")
    ] = None


def _services_model() -> type[ServicesSection]:
    """The section with a key for each service of the catalogue."""
    fields: dict[str, Any] = {}
    for service in load():
        description = (service.settings.__doc__ or "").strip().splitlines()[0]
        fields[service.key] = (Annotated[service.settings | None, Field(description=description)], None)
    return create_model("Services", __base__=ServicesSection, __doc__=ServicesSection.__doc__, **fields)


if TYPE_CHECKING:
    Services = ServicesSection
else:
    Services = _services_model()


class Platform(Model):
    """What users see."""

    layer: ClassVar[str] = "platform"
    tenants: Annotated[tuple[Tenant, ...], Field(description="Groups of users.")] = ()
    services: Annotated[Services, Field(description="Services of the platform.")] = Services()
