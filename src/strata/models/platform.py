"""The platform layer: tenants and services, as Helm releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerator_kinds import AcceleratorCounts
from strata.models.base import Model, Unit, with_sections
from strata.models.types import (
    Audience,
    Count,
    DatabaseName,
    DnsLabel,
    EmailAddress,
    GroupId,
    HttpsUrl,
    IssuerUrl,
    SiteFile,
    Size,
    UserName,
)
from strata.service_modules import service_folders, service_key, service_section


class TenantQuota(Model):
    """Limits of all that a tenant uses: pods of its namespace, servers of JupyterHub, batch jobs."""

    cpu: Annotated[
        Count, Unit("CPUs"), Field(description="CPUs that its pods, servers and batch jobs together may request.")
    ]
    memory: Annotated[Size, Field(description="Memory that its pods, servers and batch jobs together may request.")]
    accelerators: Annotated[
        AcceleratorCounts,
        Unit("cards"),
        Field(description="Cards that its pods, servers and batch jobs together may request, by kind."),
    ] = Field(default_factory=dict)
    storage: Annotated[
        Size | None,
        Field(
            description="Storage that all claims of the class `nfs` together may request. Needs "
            "platform.storage_class. Default: none."
        ),
    ] = None


class Person(Model):
    """A user of the site."""

    name: Annotated[UserName, Field(description="Name that the user logs in with.")]
    email: Annotated[
        EmailAddress | None, Field(description="E-mail address, the `email` claim of the user's tokens.")
    ] = None


class Tenant(Model):
    """A group of users with a namespace; at the site's issuer, it is the group `/tenants/<name>`."""

    name: Annotated[DnsLabel, Field(description="Name of the namespace and of the group.")]
    quota: Annotated[TenantQuota, Field(description="Limits of its pods, servers and batch jobs together.")]
    group_id: Annotated[
        GroupId | None,
        Field(
            description="ID of the group that owns its folders on NFS exports with `tenants: true`, which require it."
        ),
    ] = None
    principal_investigators: Annotated[
        tuple[Person, ...],
        Field(description="Members who administer the tenant, in the group `/tenants/<name>/admins`."),
    ] = ()
    members: Annotated[
        tuple[Person, ...],
        Field(description="Other initial members; `strata users add` adds more."),
    ] = ()


class ExternalIssuerEndpoints(Model):
    """URLs of an external issuer that its discovery document does not name."""

    authorize: Annotated[HttpsUrl | None, Field(description="Authorization endpoint.")] = None
    token: Annotated[HttpsUrl | None, Field(description="Token endpoint.")] = None
    userinfo: Annotated[HttpsUrl | None, Field(description="UserInfo endpoint.")] = None
    logout: Annotated[HttpsUrl | None, Field(description="Logout endpoint.")] = None
    revoke: Annotated[HttpsUrl | None, Field(description="Revocation endpoint, optional.")] = None


class ExternalIssuer(Model):
    """An identity provider of the organization, whose JSON Web Tokens services accept."""

    url: Annotated[IssuerUrl, Field(description="The `iss` claim of its tokens, exactly, including a trailing slash.")]
    audience: Annotated[
        Audience | None,
        Field(description="Audience that the `aud` claim of tokens must contain. Default: the name of each service."),
    ] = None
    jwks_url: Annotated[
        HttpsUrl | None,
        Field(description="URL of its keys. Default: from its /.well-known/openid-configuration."),
    ] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="PEM file of the CA that signed its certificate, relative to the site file. "
            "Default: the CAs in the service's image.",
        ),
    ] = None
    endpoints: Annotated[
        ExternalIssuerEndpoints,
        Field(description="URLs for clients, if its /.well-known/openid-configuration does not name them."),
    ] = ExternalIssuerEndpoints()


class ServicesSection(Model):
    """Services of the platform; only those that are listed are installed."""

    external_issuer: Annotated[
        ExternalIssuer | None, Field(description="External token issuer, instead of a built-in one.")
    ] = None


if TYPE_CHECKING:
    Services = ServicesSection
else:
    Services = with_sections(
        ServicesSection, "Services", {service_key(folder.name): service_section(folder) for folder in service_folders()}
    )


LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"


class IngressCertificate(Model):
    """Certificate of the services' names."""

    source: Annotated[
        Literal["site", "files", "acme"],
        Field(
            description="site: issued by the site's CA for *.<domain>. files: provided by the operator. "
            "acme: requested for each name by the ingress controller (TLS-ALPN-01)."
        ),
    ] = "site"
    certificate: Annotated[
        SiteFile | None,
        Field(
            description="files: PEM file of the certificate and its chain, relative to the site file.",
        ),
    ] = None
    private_key: Annotated[
        DatabaseName | None,
        Field(description="files: name of the entry in `secrets:` that holds the private key (PEM)."),
    ] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="files, acme: PEM file of the CA that clients trust, relative to the site file; with acme, "
            "also the CA of the directory's own certificate. Default: the public CAs.",
        ),
    ] = None
    directory: Annotated[
        HttpsUrl | None, Field(description="acme: URL of the directory. Default: Let's Encrypt's.")
    ] = None
    email: Annotated[
        EmailAddress | None,
        Field(description="acme: e-mail address of the account."),
    ] = None
    storage_class: Annotated[
        DnsLabel | None,
        Field(
            description="acme: storage class of the volume for account and certificates, if the cluster has one of "
            "another source. Default: that of platform.storage_class."
        ),
    ] = None

    @model_validator(mode="after")
    def _keys_of_the_source(self) -> Self:
        keys = {"certificate": "files", "private_key": "files", "directory": "acme", "email": "acme"}
        keys |= {"storage_class": "acme"}
        needed = {"files": ("certificate", "private_key"), "acme": ("email",)}
        for key, source in keys.items():
            if getattr(self, key) is not None and self.source != source:
                raise PydanticCustomError(
                    "certificate_key",
                    "is only for source: {source}",
                    {"key": key, "source": source, "fix": f"source: {source}, or remove the line"},
                )
        for key in needed.get(self.source, ()):
            if getattr(self, key) is None:
                raise PydanticCustomError(
                    "certificate_key",
                    "is needed for source: {source}",
                    {"key": key, "source": self.source, "fix": f"{key}: {_EXAMPLES[key]}"},
                )
        if self.ca_file is not None and self.source == "site":
            raise PydanticCustomError(
                "certificate_key",
                "is not for source: site, whose CA is known",
                {"key": "ca_file", "fix": "source: files or acme, or remove the line"},
            )
        return self


_EXAMPLES = {"certificate": "certificate.pem", "private_key": "ingress_private_key", "email": "operators@example.org"}


class StorageClass(Model):
    """The storage class `nfs`, the default of the cluster: each claim of a tenant gets a folder of an NFS export."""

    export: Annotated[
        DnsLabel,
        Field(description="Export in `hosts.nfs.exports` for the folders, with `root: true`; only nodes may mount it."),
    ]


class Ingress(Model):
    """The ingress controller, through which all services are reached."""

    certificate: Annotated[IngressCertificate, Field(description="Certificate of the services' names.")] = (
        IngressCertificate()
    )


class Platform(Model):
    """Tenants and services."""

    tenants: Annotated[tuple[Tenant, ...], Field(description="Groups of users.")] = ()
    services: Annotated[Services, Field(description="Services of the platform.")] = Services()
    storage_class: Annotated[
        StorageClass | None, Field(description="Storage class for claims of tenants. Default: none.")
    ] = None
    ingress: Annotated[Ingress, Field(description="The ingress controller.")] = Ingress()
    api_hostname: Annotated[
        DnsLabel,
        Field(description="Services that share the API's name respond below https://<api_hostname>.<domain>/v3."),
    ] = "api"
