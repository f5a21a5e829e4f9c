"""The section `hosts.data_transfer` of site.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model
from strata.models.types import AbsolutePath, DnsLabel


class DataTransfer(Model):
    """Downloads of data sets on the site's transfer nodes, with aria2."""

    path: Annotated[AbsolutePath, Field(description="Folder of the downloads, or mount point of the export.")] = Path(
        "/srv/data-transfer"
    )
    export: Annotated[
        DnsLabel | None,
        Field(
            description="NFS export of the site with `tenants: true`; downloads go to the tenant's folder in it. "
            "Default: a folder of the transfer node itself."
        ),
    ] = None
    tenant: Annotated[
        DnsLabel | None,
        Field(
            description="Tenant whose group_id may read and queue downloads, besides the operators. Required "
            "with `export`. Default: only the operators."
        ),
    ] = None

    @model_validator(mode="after")
    def _export_of_a_tenant(self) -> Self:
        if self.export is not None and self.tenant is None:
            raise PydanticCustomError(
                "export_tenant",
                "needs a tenant, whose folder in the export takes the downloads",
                {"key": "export", "fix": "add tenant: <name>"},
            )
        return self


SECTION = DataTransfer
