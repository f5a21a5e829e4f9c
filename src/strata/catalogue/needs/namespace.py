"""Namespaces: one of the service's own, and those of tenants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext, Values
from strata.catalogue.site_services import needed
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.platform import Tenant
from strata.models.site import Site

PodSecurity = Literal["privileged", "baseline", "restricted"]
MAXIMUM_RELEASE = 53
"""Characters of a release's name."""


@dataclass(frozen=True)
class Namespace(Need[str]):
    """A namespace for the service's release and its Secret, in place of strata-system; for services that start pods.

    Nothing goes in or out but DNS queries, until a NetworkPolicy of the service's chart allows it.

    Args:
        name: of the namespace; two services that need the same one share it. A service's first has its release.
        pod_security: level of the Pod Security Standards that it enforces.
        secret: entries of a Secret in it, named as the service's, for a namespace that does not have the release.
        reader: service account in it that may list the nodes and pods of the cluster; empty: none.
    """

    name: str
    pod_security: PodSecurity = "restricted"
    secret: Callable[[ServiceContext[Any]], Mapping[str, str]] | None = None
    reader: str = ""

    @property
    def release(self) -> str:
        """Name of the release that makes it."""
        return f"namespace-{self.name}"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """No tenant has that name, and services that share it agree on its level."""
        for index, tenant in enumerate(site.platform.tenants):
            if tenant.name == self.name:
                tenants: KeyPath = ("platform", "tenants", index, "name")
                why = f"needs the namespace {self.name}, which is the tenant's"
                yield Finding(key, why, "another name for the tenant", (tenants,))
        if any(other.name == self.name and other != self for _, other in needed(site, Namespace)):
            why = f"needs the namespace {self.name} with another pod security level than another service"
            yield Finding(key, why, "remove one of the two services")

    @property
    def release_namespace(self) -> str:
        """Its name."""
        return self.name

    def provide(self, context: ServiceContext[Any]) -> str:  # noqa: ARG002  # the name is given
        """Its name."""
        return self.name


@dataclass(frozen=True)
class TenantNamespaces(Need[tuple[str, ...]]):
    """A release per tenant, `<chart>-<tenant>`, with the objects that the service needs in the tenant's namespace.

    It is stored in strata-system: a tenant's members can edit every Secret of their namespace, and Helm trusts its own.

    Args:
        chart: folder in helm/ with a value `namespace`, where all its objects are; Strata sets that value.
        values: of the chart for one tenant, without `namespace`.
        tenant_secret: entries of the Secret `<chart>-secrets` in the tenant's namespace, which its members can read.
    """

    chart: str
    values: Callable[[ServiceContext[Any], Tenant], Values]
    tenant_secret: Callable[[ServiceContext[Any], Tenant], Mapping[str, str]] | None = None

    @property
    def secret_name(self) -> str:
        """Of the Secret in each tenant's namespace."""
        return f"{self.chart}-secrets"

    def release(self, tenant: str) -> str:
        """Name of a tenant's release."""
        return f"{self.chart}-{tenant}"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """Helm takes the releases' names."""
        for index, tenant in enumerate(site.platform.tenants):
            if len(self.release(tenant.name)) > MAXIMUM_RELEASE:
                tenants: KeyPath = ("platform", "tenants", index, "name")
                longest = MAXIMUM_RELEASE - len(self.release(""))
                why = f"needs a release {self.release(tenant.name)}, a name longer than {MAXIMUM_RELEASE} characters"
                yield Finding(key, why, f"a tenant's name of at most {longest} characters", (tenants,))

    def provide(self, context: ServiceContext[Any]) -> tuple[str, ...]:
        """The tenants' namespaces."""
        return tuple(tenant.name for tenant in context.site.platform.tenants)
