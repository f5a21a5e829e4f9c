"""The platform layer: tenants and services, as Helm releases."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerators import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.types import Audience, Count, DnsLabel, GroupId, HttpsUrl, IssuerUrl, Size


class TenantQuota(Model):
    """Most that a tenant's pods may ask for."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("ResourceQuota (helm/tenant)",)
    cpu: Annotated[Count, Unit("CPUs"), Field(description="CPUs that all pods may ask for.")]
    memory: Annotated[Size, Field(description="Memory that all pods may ask for.")]
    accelerators: Annotated[
        AcceleratorCounts, Unit("cards"), Field(description="Cards that all pods may ask for, by kind.")
    ] = Field(default_factory=dict)


class Tenant(Model):
    """A group of users with a namespace of its own."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("release of helm/tenant (pulumi/platform)",)
    name: Annotated[DnsLabel, Field(description="Name of the namespace.")]
    quota: Annotated[TenantQuota, Field(description="Most that its pods may ask for.")]
    group_id: Annotated[
        GroupId | None,
        Field(description="Numeric group that owns its folders on NFS exports with `tenants: true`, which need it."),
    ] = None


class TokenIssuer(Model):
    """Issues the JSON Web Tokens that services accept, for sites without an identity provider."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("release token-issuer (pulumi/platform)", "role load_balancer")
    hostname: Annotated[DnsLabel, Field(description="Answers at https://<hostname>.<domain>.")] = "login"


class ExternalIssuer(Model):
    """An identity provider of the organisation, whose JSON Web Tokens services accept in place of token_issuer's."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("release ml-hub (pulumi/platform)",)
    url: Annotated[IssuerUrl, Field(description="The `iss` claim of its tokens, exactly, a last slash included.")]
    audience: Annotated[Audience, Field(description="What the `aud` claim of tokens must hold.")] = "ml-hub"
    jwks_url: Annotated[
        HttpsUrl | None,
        Field(description="Where it publishes its keys. Default: as its /.well-known/openid-configuration says."),
    ] = None
    ca_file: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            description="PEM file of the authority that signed its certificate, relative to the site file. "
            "Default: the authorities of the service's image.",
        ),
    ] = None


class Catalogue(Model):
    """Where the ML Hub's models come from; exactly one key."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("catalogue loader (release ml-hub)",)
    file: Annotated[
        str | None, Field(min_length=1, max_length=4096, description="JSON file, relative to the site file.")
    ] = None
    hugging_face: Annotated[
        Count | None,
        Unit("models"),
        Field(description="Take so many models from the Hugging Face API, the most downloaded first."),
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.hugging_face is None):
            raise PydanticCustomError(
                "catalogue_source",
                "needs exactly one of file and hugging_face",
                {"fix": "for instance {file: catalogue.json}"},
            )
        return self


class MlHub(Model):
    """The ML Hub API: a catalogue of models behind https://<hostname>.<domain>/v3/ml-hub."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("release ml-hub (pulumi/platform)", "role load_balancer")
    hostname: Annotated[DnsLabel, Field(description="Answers at https://<hostname>.<domain>.")] = "ml-hub"
    replicas: Annotated[Count, Unit("pods"), Field(description="Pods that answer.")] = 1
    catalogue: Annotated[Catalogue, Field(description="Where its models come from.")]


class Services(Model):
    """Services of the platform; one that is not named is not installed."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("pulumi/platform",)
    token_issuer: Annotated[
        TokenIssuer | None, Field(description="Issuer of tokens of the site's own; ml_hub needs it or external_issuer.")
    ] = None
    external_issuer: Annotated[
        ExternalIssuer | None, Field(description="Issuer of tokens outside of the site, in place of token_issuer.")
    ] = None
    ml_hub: Annotated[MlHub | None, Field(description="Catalogue of models; needs the database ml_hub.")] = None

    @property
    def issuer(self) -> TokenIssuer | ExternalIssuer | None:
        """Whose tokens services accept."""
        return self.token_issuer or self.external_issuer

    @property
    def installed(self) -> dict[str, TokenIssuer | MlHub]:
        """What runs in the cluster, by key."""
        found: dict[str, TokenIssuer | MlHub | None] = {"token_issuer": self.token_issuer, "ml_hub": self.ml_hub}
        return {key: service for key, service in found.items() if service is not None}


class Platform(Model):
    """What users see."""

    layer: ClassVar[str] = "platform"
    consumers: ClassVar[tuple[str, ...]] = ("pulumi/platform",)
    tenants: Annotated[tuple[Tenant, ...], Field(description="Groups of users.")] = ()
    services: Annotated[Services, Field(description="Services of the platform.")] = Services()
