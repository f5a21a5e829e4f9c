"""The site's batch system, for services that submit jobs to it or read its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, SecretReference
from strata.catalogue.service import Secrets, ServiceContext
from strata.catalogue.site_services import batch_server

TENANT_LABEL = "strata.dev/tenant"
MONITOR_KEY = "batch-monitor-token"
TOKEN_SECRET_KEY = "batch-token-secret"  # noqa: S105  # the key of an entry


@dataclass(frozen=True)
class Schedd:
    """The queue of one tenant.

    Args:
        name: for the collector, which no member may query.
        host: for pods.
        port: TCP port, for the tenant's members.
    """

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """SCHEDD_HOST of the tenant's members."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class BatchServer:
    """The pool of a batch system in the cluster.

    Args:
        collector: host and port of the central manager, for pods that read all queues.
        schedds: by tenant.
        domain: UID_DOMAIN and TRUST_DOMAIN; users are `<tenant>.<user>@<domain>`.
        pods: peer of NetworkPolicies: its central manager and its access point.
        port: TCP port of both, for pods that read all queues.
        tokens_url: issues users' tokens by POST, for pods.
        tokens_port: TCP port of the access point's pods behind it.
        token_secret: makes the text that services authorize themselves with there.
        monitor_token: makes a token that reads the queues and the histories of all tenants.
    """

    collector: str
    schedds: Mapping[str, Schedd]
    domain: str
    pods: Mapping[str, Any]
    port: int
    tokens_url: str
    tokens_port: int
    token_secret: Callable[[Secrets], str]
    monitor_token: Callable[[Secrets], str]


@dataclass(frozen=True)
class BatchAccess:
    """What a client of the pool needs.

    Args:
        server: the pool.
        token_secret: where the text for `tokens_url` is; None unless the need names pods that request tokens.
        monitor_token: where the token is that reads all jobs; None unless the need asks for it.
    """

    server: BatchServer
    token_secret: SecretReference | None = None
    monitor_token: SecretReference | None = None


@dataclass(frozen=True)
class BatchQueue(Need[BatchAccess | None]):
    """Access to the site's batch system; at sites without one, nothing.

    Args:
        pods: labels of the service's pods that reach the pool, "component=singleuser-server": each the schedd of its
            tenant, the label `strata.dev/tenant`; with `monitor` all of them.
        first_tenant_pods: labels of pods without a tenant that reach the schedd of the first one, such as a check's.
        token_pods: label of those that request users' tokens; empty: none, and the service does not get the secret.
        monitor: whether the service gets a token that reads all jobs.
        images: folders in the service's `images/` whose images its users' jobs may run in, by that name.
    """

    pods: tuple[str, ...]
    token_pods: tuple[str, ...] = ()
    monitor: bool = False
    images: tuple[str, ...] = ()
    first_tenant_pods: tuple[str, ...] = ()

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The secret for tokens and the monitor's token, as far as they are asked for."""
        server = batch_server(context.site)
        if server is None:
            return {}
        data = {TOKEN_SECRET_KEY: server.token_secret(context.secrets)} if self.token_pods else {}
        return data | ({MONITOR_KEY: server.monitor_token(context.secrets)} if self.monitor else {})

    def provide(self, context: ServiceContext[Any]) -> BatchAccess | None:
        """The pool and where the secrets are; None where no service of the site takes batch jobs."""
        server = batch_server(context.site)
        if server is None:
            return None
        secret = context.secret_reference(TOKEN_SECRET_KEY) if self.token_pods else None
        return BatchAccess(server, secret, context.secret_reference(MONITOR_KEY) if self.monitor else None)
