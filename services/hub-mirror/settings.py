"""What site.yaml sets of the mirror of the Hub."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, StrictBool

from strata.models.base import Model
from strata.models.types import DnsLabel, HttpsUrl, SiteFile, Size

HTTPS = 443
Url = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?$", max_length=300)]
Host = Annotated[str, Field(pattern=r"^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$", max_length=253)]


class Upstream(Model):
    """The Hub that is mirrored."""

    url: Annotated[HttpsUrl, Field(description="URL, of the public Hub or of another mirror.")] = (
        "https://huggingface.co"
    )
    hosts: Annotated[
        tuple[Host, ...],
        Field(description="Hosts that its redirects may lead to, beside its own; `*.` is any name below."),
    ] = ("*.hf.co", "*.huggingface.co")
    ca_file: Annotated[
        SiteFile | None,
        Field(description="PEM file of the CA of its certificate, relative to the site file. Default: public CAs."),
    ] = None
    proxy: Annotated[Url | None, Field(description="HTTP proxy for requests to it. Default: none.")] = None
    offline: Annotated[
        StrictBool,
        Field(description="Whether it is never asked; the mirror has what tenants publish and what it has cached."),
    ] = False

    @property
    def ports(self) -> set[int]:
        """TCP ports that the mirror connects to."""
        if self.offline:
            return set()
        if self.proxy is not None:
            return {urlsplit(self.proxy).port or (HTTPS if self.proxy.startswith("https") else 80)}
        hosts = {int(host.partition(":")[2] or HTTPS) for host in self.hosts}
        return {urlsplit(self.url).port or HTTPS, *hosts}


class HubMirror(Model):
    """Cache of the Hugging Face Hub with repositories of tenants, at https://<hostname>.<domain>."""

    hostname: Annotated[DnsLabel, Field(description="HF_ENDPOINT is https://<hostname>.<domain>.")] = "hub"
    upstream: Annotated[Upstream, Field(description="The Hub that is mirrored.")] = Upstream()
    storage: Annotated[
        Size,
        Field(description="Size of the volume of the cache, and of that of repositories, which NFS does not enforce."),
    ] = Size.parse("100 GiB")
    cache_size: Annotated[
        Size, Field(description="Most that cached files use; the least recently used are deleted first.")
    ] = Size.parse("80 GiB")
    repository_size: Annotated[Size, Field(description="Most that the repositories of one tenant use.")] = Size.parse(
        "10 GiB"
    )
    storage_class: Annotated[
        DnsLabel | None,
        Field(description="Storage class of the cache. Default: `nfs`, which needs platform.storage_class."),
    ] = None


SECTION = HubMirror
