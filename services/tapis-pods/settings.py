"""What site.yaml sets of the Pods API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class PodImages(Model):
    """Images that users may run."""

    repository: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?/[a-z0-9._/-]*$",
            max_length=300,
            description="Registry and repository, without tag; one that ends with / allows all below it.",
        ),
    ]
    tenants: Annotated[tuple[DnsLabel, ...], Field(description="Tenants whose members may run it. Default: all.")] = ()


class TemplatePort(Model):
    """A port of a template's pods, an entry of Tapis' `networking`."""

    name: Annotated[
        str,
        Field(
            pattern="^[a-z0-9]{3,58}$", description="Key: `default` is <pod>.<hostname>.<domain>, another <pod>-<name>."
        ),
    ] = "default"
    protocol: Annotated[
        Literal["http", "tcp", "postgres", "local_only"],
        Field(description="`http`, `tcp`, `postgres`: at the name; `local_only`: inside of the tenant."),
    ] = "http"
    port: Annotated[
        int, Unit("TCP port"), Field(strict=True, ge=1, le=65535, description="That the container listens on.")
    ]


Millicpu = Annotated[int, Field(strict=True, ge=250, le=6000)]
Mebibytes = Annotated[int, Field(strict=True, ge=256, le=12288)]
Gpus = Annotated[int, Field(strict=True, ge=0, le=64)]


class TemplateResources(Model):
    """CPU, memory and GPUs of a template's pods. Default: those of the API."""

    cpu_request: Annotated[Millicpu | None, Unit("millicpu"), Field(description="Reserved.")] = None
    cpu_limit: Annotated[Millicpu | None, Unit("millicpu"), Field(description="Maximum.")] = None
    mem_request: Annotated[Mebibytes | None, Unit("MiB"), Field(description="Reserved.")] = None
    mem_limit: Annotated[Mebibytes | None, Unit("MiB"), Field(description="Maximum.")] = None
    gpus: Annotated[Gpus | None, Unit("GPUs"), Field(description="Whole GPUs.")] = None


Words = tuple[Annotated[str, Field(max_length=32_768)], ...]


class PodTemplate(Model):
    """A template that all users may create pods from, in the fields of Tapis' `pod_definition`."""

    name: Annotated[
        str, Field(pattern=r"^[a-z][a-z0-9_-]*[a-z0-9]$", min_length=3, max_length=64, description="Of the template.")
    ]
    description: Annotated[str, Field(max_length=254, description="Shown in the list of templates.")] = ""
    image: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?/[a-z0-9._/-]+(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$",
            max_length=400,
            description="Registry, repository, tag or digest; `images` must list it. For an image of Strata's own, "
            "leave out the tag.",
        ),
    ]
    command: Annotated[
        Words | None, Field(description="Default: the image's.", json_schema_extra={"uniqueItems": False})
    ] = None
    arguments: Annotated[
        Words | None, Field(description="Default: the image's.", json_schema_extra={"uniqueItems": False})
    ] = None
    environment_variables: Annotated[
        dict[Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_.-]*$")], Annotated[str, Field(max_length=32_768)]],
        Field(default_factory=dict, description="All users can read them, so no passwords."),
    ]
    ports: Annotated[
        tuple[TemplatePort, ...], Field(max_length=4, description="Default: `default`, http, port 5000.")
    ] = ()
    resources: Annotated[TemplateResources, Field(description="CPU, memory and GPUs.")] = TemplateResources()


class Pods(Model):
    """Containers of users at https://<pod>.<hostname>.<domain>, by pages at https://<hostname>.<domain> and by
    Tapis' Pods API at https://<api_hostname>.<domain>/v3/pods."""

    hostname: Annotated[
        DnsLabel,
        Field(
            description="Pods respond at https://<pod>.<hostname>.<domain>, their pages at https://<hostname>.<domain>."
        ),
    ] = "pods"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods of the API.")] = 1
    images: Annotated[
        tuple[PodImages, ...], Field(description="Images that users may run. Default: none, so no pod can be made.")
    ] = ()
    templates: Annotated[tuple[PodTemplate, ...], Field(description="Templates for all users.")] = ()


SECTION = Pods
