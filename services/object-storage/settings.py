"""What site.yaml sets of object storage."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import DnsLabel, HttpsUrl, SiteFile

Region = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class External(Model):
    """An S3 endpoint of the organization: Ceph RGW, SeaweedFS, a cloud. The operator creates buckets and keys there."""

    url: Annotated[HttpsUrl, Field(description="URL of the endpoint, for path-style requests.")]
    ca_file: Annotated[
        SiteFile | None,
        Field(description="PEM file of the CA of its certificate, relative to the site file. Default: public CAs."),
    ] = None


class ObjectStorage(Model):
    """S3 with a bucket per tenant; a tenant's bucket is its folder on the NFS server."""

    hostname: Annotated[DnsLabel, Field(description="Buckets are at https://<hostname>.<domain>/<bucket>.")] = "s3"
    region: Annotated[Region, Field(description="Region for which clients sign requests.")] = "us-east-1"
    export: Annotated[
        DnsLabel, Field(description="NFS export with `tenants: true`, whose folders are the tenants' buckets.")
    ] = "tenants"
    external: Annotated[
        External | None, Field(description="Endpoint outside of the site, instead of Strata's servers.")
    ] = None


SECTION = ObjectStorage
