"""What site.yaml sets of the inference service."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, Size


class ServedModel(Model):
    """A model that users may ask."""

    id: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$",
            max_length=96,
            description="Id at the site's hub, of the Hugging Face Hub's models or of a tenant's public repository.",
        ),
    ]
    revision: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            max_length=120,
            description="Branch, tag or commit. A branch is read at each start of the model.",
        ),
    ] = "main"
    accelerator: Annotated[Literal["cpu", "gpu"], Field(description="`gpu`: a pod with one GPU of any kind.")] = "cpu"
    memory: Annotated[
        Size, Field(description="Of its pod: the weights, PyTorch (about 500 MiB), and what it computes.")
    ]
    cpu: Annotated[Count, Unit("CPUs"), Field(description="Of its pod; threads of PyTorch.")] = 2
    tenants: Annotated[tuple[DnsLabel, ...], Field(description="Tenants whose members may ask it. Default: all.")] = ()
    idle: Annotated[
        int,
        Unit("minutes"),
        Field(strict=True, ge=1, le=10_080, description="Time without a request after which it stops."),
    ] = 10


class Inference(Model):
    """Models at https://<hostname>.<domain>, which the first request starts."""

    hostname: Annotated[DnsLabel, Field(description="OpenAI's API is at https://<hostname>.<domain>/v1.")] = "inference"
    models: Annotated[tuple[ServedModel, ...], Field(max_length=50, description="Models that users may ask.")] = ()


SECTION = Inference
