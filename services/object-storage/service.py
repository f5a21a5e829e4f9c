"""Object storage: the site's S3 endpoint, with a bucket per tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strata.catalogue.need import pods_peer
from strata.catalogue.needs import (
    Bucket,
    FrontPageEntry,
    Hostname,
    Metrics,
    Namespace,
    Need,
    Priority,
    SharedVolume,
    TenantFolders,
    TenantNamespaces,
)
from strata.catalogue.needs.bucket import (
    MAXIMUM,
    MINIMUM,
    SECRET_KEY,
    S3Endpoint,
    bucket_key,
    key_findings,
)
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site_needs import bucket_clients
from strata.catalogue.site_services import needed, required_endpoint
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.platform import Tenant
from strata.models.site import Site
from strata_services.object_storage.settings import ObjectStorage

FOLDER = Path(__file__).parent
PORT = 7070
USER_ID = 65532
"""Of the servers; they own the objects, the tenant's group may write them."""
NAMESPACE = Namespace(FOLDER.name)
PRIORITY = Priority("platform")
METRICS = Metrics(9104)
HEALTH = "/_health"
TITLE, SUMMARY = "Object storage", "S3: a bucket for each project, whose objects are the files of the project's folder."
COMMAND = "aws --endpoint-url {url} s3 ls s3://PROJECT"
VOLUME = SharedVolume(FOLDER.name, owner=USER_ID, group=USER_ID, mode="0700")
"""Objects of services, and what NFS cannot store beside a file: ETag, content type, the user's metadata."""
KEY: KeyPath = ("platform", "services", "object_storage")


def hostname(settings: ObjectStorage) -> Hostname:
    """Where clients outside of the cluster reach it."""
    return Hostname(settings.hostname, HEALTH, title=TITLE, summary=SUMMARY, command=COMMAND)


def needs(settings: ObjectStorage) -> tuple[Need[Any], ...]:
    """Folders and a name for the servers, unless the endpoint is external; something in each tenant's namespace."""
    if (external := settings.external) is not None:
        return (TENANTS, FrontPageEntry(TITLE, SUMMARY, COMMAND.replace("{url}", external.url.rstrip("/"))))
    return (NAMESPACE, PRIORITY, METRICS, VOLUME, TenantFolders(settings.export), hostname(settings), TENANTS)


def endpoint(settings: ObjectStorage, site: Site) -> S3Endpoint:
    """The site's S3 endpoint."""
    if (external := settings.external) is not None:
        ca_file = Path(external.ca_file) if external.ca_file else None
        return S3Endpoint(external.url.rstrip("/"), settings.region, ca_file=ca_file)
    url = f"https://{settings.hostname}.{site.domain}"
    return S3Endpoint(url, settings.region, service=FOLDER.name, namespace=NAMESPACE.name, port=PORT)


def check(settings: ObjectStorage, site: Site, _: Path) -> Iterator[Finding]:
    """Names of tenants can be names of buckets; the operator provides the keys of an external endpoint."""
    storage = endpoint(settings, site)
    for index, tenant in enumerate(site.platform.tenants):
        if not MINIMUM <= len(tenant.name) <= MAXIMUM:
            why = f"is not the name of a bucket, which has {MINIMUM} to {MAXIMUM} characters"
            yield Finding(("platform", "tenants", index, "name"), why, "another name, for instance research", (KEY,))
        yield from key_findings(site, storage, tenant.name, KEY)


def secret_data(context: ServiceContext[ObjectStorage]) -> Mapping[str, str]:
    """The secret key of every bucket, for its server."""
    storage = required_endpoint(context.site)
    names = [] if storage.external else [bucket["name"] for bucket in buckets(context)]
    return {name: bucket_key(context.secrets, storage, name)[SECRET_KEY] for name in names}


def buckets(context: ServiceContext[ObjectStorage]) -> list[Values]:
    """What each server serves, as which group, to whom: the tenants' folders, and the buckets of services."""
    claims = context.provide(TenantFolders(context.settings.export))
    tenants = [
        {
            "name": tenant.name,
            "group": tenant.group_id or USER_ID,
            "claim": claims[tenant.name],
            "clients": [
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.name}}},
                *bucket_clients(context.site, tenant.name),
            ],
        }
        for tenant in context.site.platform.tenants
    ]
    own: list[Values] = [
        {
            "name": need.name,
            "group": USER_ID,
            "claim": context.provide(VOLUME),
            "subPath": f"buckets/{need.name}",
            "clients": [pods_peer(service.namespace_of(context.site), {"app.kubernetes.io/name": service.name})],
        }
        for service, need in needed(context.site, Bucket)
    ]
    return [*tenants, *own]


def values(context: ServiceContext[ObjectStorage]) -> Values:
    """Values of helm/object-storage; without buckets where the endpoint is external."""
    if context.settings.external is not None:
        return {"image": context.image}
    metrics = context.provide(METRICS)
    return {
        "image": context.image,
        "region": context.settings.region,
        "port": PORT,
        "buckets": buckets(context),
        "user": USER_ID,
        "metadata": {"claim": context.provide(VOLUME)},
        "existingSecret": context.service.secret_name,
        "ingress": context.provide(hostname(context.settings)),
        "networkPolicy": {"metricsClients": list(metrics.clients)},
        "podAnnotations": dict(metrics.annotations),
        "priorityClassName": context.provide(PRIORITY),
    }


def tenant_values(context: ServiceContext[Any], tenant: Tenant) -> Values:
    """Values of helm/bucket: where the tenant's bucket is, and the servers that its pods may reach."""
    storage = required_endpoint(context.site)
    pods = storage.pods(tenant.name)
    bucket = {"name": tenant.name, "endpoint": storage.endpoint(tenant.name), "region": storage.region}
    return {"bucket": {**bucket, "url": storage.url}, "server": {"port": storage.port, "pods": dict(pods or {})}}


def tenant_secret(context: ServiceContext[Any], tenant: Tenant) -> Mapping[str, str]:
    """The key of the tenant's bucket, which its members can read."""
    return bucket_key(context.secrets, required_endpoint(context.site), tenant.name)


TENANTS = TenantNamespaces("bucket", tenant_values, tenant_secret)
SERVICE = Service(
    folder=FOLDER,
    needs=needs,
    values=values,
    check=check,
    secret_data=secret_data,
    s3_endpoint=endpoint,
)
