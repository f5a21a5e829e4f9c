"""What site.yaml sets of the ML Hub."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, HttpsUrl, SiteFile

PUBLIC_HUB = "https://huggingface.co"


class Catalogue(Model):
    """Source of the ML Hub's models and datasets: `file` or `hugging_face`; `endpoint` has their cards and files."""

    file: Annotated[SiteFile | None, Field(description="JSON file, relative to the site file.")] = None
    hugging_face: Annotated[
        Count | None,
        Unit("models and datasets, of each"),
        Field(description="Number of models, and of datasets, to load from the endpoint, the most downloaded first."),
    ] = None
    endpoint: Annotated[
        HttpsUrl | None,
        Field(
            description="URL of a Hugging Face API, from which cards and names of files are read. Default: the site's "
            "hub_mirror; without one, with hugging_face, the public one, and with file none."
        ),
    ] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="With endpoint: PEM file of the CA of its certificate, relative to the site file. "
            "Default: public CAs."
        ),
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.hugging_face is None):
            raise PydanticCustomError(
                "catalogue_source",
                "needs exactly one of file and hugging_face",
                {"fix": "for instance {file: catalogue.json}"},
            )
        if self.ca_file is not None and self.endpoint is None:
            message = "ca_file is that of an endpoint's certificate, and there is no endpoint"
            raise PydanticCustomError("catalogue_ca", message, {"fix": "name the endpoint, or remove ca_file"})
        return self

    @property
    def hub(self) -> str | None:
        """URL of the Hugging Face API; None: there is none."""
        return self.endpoint or (PUBLIC_HUB if self.hugging_face is not None else None)

    @property
    def hub_ports(self) -> list[int]:
        """TCP ports that pods reach the Hugging Face API at."""
        return [] if self.hub is None else [urlsplit(self.hub).port or 443]


class MlHub(Model):
    """Searchable catalogue of models and datasets: pages, and the ML Hub API, at https://<hostname>.<domain>.

    The API is also at https://<api_hostname>.<domain>/v3/ml-hub.
    """

    hostname: Annotated[
        DnsLabel, Field(description="Pages are at https://<hostname>.<domain>, the API at /v3/ml-hub there.")
    ] = "ml-hub"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1
    catalogue: Annotated[Catalogue, Field(description="Source of the models and datasets.")]


SECTION = MlHub
