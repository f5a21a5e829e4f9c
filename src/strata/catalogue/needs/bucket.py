"""A bucket at the site's S3 endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.catalogue.discovery import services
from strata.catalogue.need import Need, SecretReference, pods_peer
from strata.catalogue.service import Secrets, ServiceContext, Values
from strata.catalogue.site_services import needed, required_endpoint, s3_endpoint
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site

ACCESS_KEY, SECRET_KEY = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
"""Entries of the Secrets with a bucket's key: the variables that S3 clients read."""
MINIMUM, MAXIMUM = 3, 40
"""Characters of a bucket's name: what S3 requires, and what leaves room in the names of pods."""


@dataclass(frozen=True)
class S3Endpoint:
    """The site's S3 endpoint, path style.

    Args:
        url: for clients outside of the cluster.
        region: that clients sign for.
        service: prefix of the pods' Service, one per bucket; empty: an endpoint outside of the site.
        namespace: of these pods.
        port: TCP port that these pods listen on.
        ca_file: PEM of the CA of an endpoint outside of the site, relative to the site file; None: a public CA.
    """

    url: str
    region: str
    service: str = ""
    namespace: str = ""
    port: int = 443
    ca_file: Path | None = None

    @property
    def external(self) -> bool:
        """Whether the endpoint is outside of the site."""
        return not self.service

    def endpoint(self, bucket: str) -> str:
        """URL for pods."""
        return self.url if self.external else f"http://{self.service}-{bucket}.{self.namespace}.svc:{self.port}"

    def pods(self, bucket: str) -> Mapping[str, Any] | None:
        """Peer of NetworkPolicies: the pods that serve a bucket; None for an external endpoint."""
        if self.external:
            return None
        labels = {"app.kubernetes.io/name": self.service, "strata.dev/bucket": bucket}
        return pods_peer(self.namespace, labels)


@dataclass(frozen=True)
class BucketAccess:
    """How pods reach a bucket.

    Args:
        endpoint: URL; its certificate is signed by `ca`, or it is plain HTTP inside the cluster.
        region: that requests are signed for.
        name: of the bucket.
        access_key: id of its key.
        secret_key: secret of its key.
        port: TCP port of the endpoint.
        pods: peer of a NetworkPolicy; None for an external endpoint.
        ca: PEM of the CA; None: a public one, or plain HTTP.
    """

    endpoint: str
    region: str
    name: str
    access_key: SecretReference
    secret_key: SecretReference
    port: int
    pods: Mapping[str, Any] | None
    ca: str | None = None

    @property
    def values(self) -> Values:
        """All but the key, as the charts take it."""
        return {"endpoint": self.endpoint, "region": self.region, "name": self.name}


@dataclass(frozen=True)
class Bucket(Need[BucketAccess]):
    """A bucket of the service's own, and the key that reads and writes it and no other.

    Removing the service leaves the objects.

    Args:
        name: unique at the site; 3 to 40 lower-case letters, digits and dashes.
    """

    name: str

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs an S3 endpoint; no tenant and no other service has the bucket."""
        storage = s3_endpoint(site)
        if storage is None:
            names = [service.key for service in services() if service.s3_endpoint is not None]
            reads: tuple[KeyPath, ...] = tuple(("platform", "services", name) for name in names)
            why = f"needs S3 for its bucket {self.name}, and the site has no endpoint"
            yield Finding(key, why, f"below services: {' or '.join(f'{name}: {{}}' for name in names)}", reads)
            return
        if self.name in {tenant.name for tenant in site.platform.tenants}:
            tenants: KeyPath = ("platform", "tenants")
            why = f"needs the bucket {self.name}, which is the tenant's"
            yield Finding(key, why, "another name for the tenant", (tenants,))
        if sum(need.name == self.name for _, need in needed(site, Bucket)) > 1:
            yield Finding(key, f"needs the bucket {self.name}, as another service does", "remove one of the two")
        yield from key_findings(site, storage, self.name, key)

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The bucket's key."""
        storage = required_endpoint(context.site)
        return {f"{self.name}.{name}": value for name, value in bucket_key(context.secrets, storage, self.name).items()}

    def provide(self, context: ServiceContext[Any]) -> BucketAccess:
        """Endpoint and key.

        Raises:
            UserError: the file with the endpoint's CA cannot be read.
        """
        return _access(context, self.name)


@dataclass(frozen=True)
class TenantBuckets(Need[dict[str, BucketAccess]]):
    """Access to the tenants' buckets, for pods that have the label `strata.dev/tenant`; none without an S3 endpoint.

    A tenant's bucket admits the pods with the tenant's label only, and its key is an entry of the service's Secret.

    Args:
        pods: label of the service's pods, "component=singleuser-server".
    """

    pods: str

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The key of each tenant's bucket."""
        storage = s3_endpoint(context.site)
        if storage is None:
            return {}
        return {
            f"{tenant.name}.{name}": value
            for tenant in context.site.platform.tenants
            for name, value in bucket_key(context.secrets, storage, tenant.name).items()
        }

    def provide(self, context: ServiceContext[Any]) -> dict[str, BucketAccess]:
        """Tenant to endpoint and key.

        Raises:
            UserError: the file with the endpoint's CA cannot be read.
        """
        if s3_endpoint(context.site) is None:
            return {}
        return {tenant.name: _access(context, tenant.name) for tenant in context.site.platform.tenants}

    def peer(self, namespace: str, tenant: str) -> dict[str, Any]:
        """Peer of NetworkPolicies: the service's pods with a tenant's label."""
        name, _, value = self.pods.partition("=")
        return pods_peer(namespace, {name: value, "strata.dev/tenant": tenant})


def _access(context: ServiceContext[Any], bucket: str) -> BucketAccess:
    storage = required_endpoint(context.site)
    ca = None
    if storage.ca_file is not None:
        ca = context.read("ca_file of the S3 endpoint", storage.ca_file)
    return BucketAccess(
        endpoint=storage.endpoint(bucket),
        region=storage.region,
        name=bucket,
        access_key=context.secret_reference(f"{bucket}.{ACCESS_KEY}"),
        secret_key=context.secret_reference(f"{bucket}.{SECRET_KEY}"),
        port=storage.port,
        pods=storage.pods(bucket),
        ca=ca,
    )


def secret_names(bucket: str) -> tuple[str, str]:
    """Names of the site's secrets with the id of a bucket's key, provided for an external endpoint, and its secret."""
    prefix = f"{bucket.replace('-', '_')}_bucket"
    return f"{prefix}_access_key", f"{prefix}_secret_key"


def bucket_key(secrets: Secrets, storage: S3Endpoint, bucket: str) -> dict[str, str]:
    """A bucket's key, by the names of the variables that S3 clients read; its id is the bucket's name, or provided."""
    access, secret = secret_names(bucket)
    return {ACCESS_KEY: secrets.get(access) if storage.external else bucket, SECRET_KEY: secrets.get(secret)}


def key_findings(site: Site, storage: S3Endpoint, bucket: str, key: KeyPath) -> Iterator[Finding]:
    """The operator provides the key of a bucket at an external endpoint."""
    if not storage.external:
        return
    provided = {secret.name for secret in site.secrets if secret.source != "generated"}
    for name in secret_names(bucket):
        if name not in provided:
            why = f"the key of the bucket {bucket} at the external endpoint must be provided"
            yield Finding(key, why, f"secrets: [{{name: {name}, source: file, path: …}}]", (("secrets",),))
