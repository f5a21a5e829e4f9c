"""What HTCondor needs from the platform."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from strata.catalogue.needs import (
    Accelerators,
    FrontPageEntry,
    HuggingFace,
    Metrics,
    Namespace,
    Need,
    Priority,
    Secret,
    SharedVolume,
    TenantFolders,
    TenantQuota,
)
from strata.catalogue.service import Secrets, ServiceContext
from strata_services.htcondor.settings import HTCondor
from strata_services.htcondor.tokens import idtoken

USER_ID = 10001
"""Of the daemons, on the volume too."""
SIGNING_KEY = Secret("htcondor_pool_key", "POOL")
TOKEN_SECRET = Secret("htcondor_token_secret", "token-secret")
PRIORITY, JOB_PRIORITY = Priority("platform"), Priority("batch")
METRICS = Metrics(9100)
ENTRY = FrontPageEntry(
    "Batch jobs",
    "HTCondor: jobs that run on what notebooks leave free. Submit them in a notebook's terminal.",
    "condor_submit FILE",
)
EXECUTE, MONITOR, PROVISIONER = "execute", "monitor", "provisioner"
"""Names in identities. A user's has a dot after the tenant's."""
SCOPES = {EXECUTE: ("ADVERTISE_STARTD", "ADVERTISE_MASTER", "READ"), MONITOR: ("READ",), PROVISIONER: ("READ",)}


def daemon_token(secrets: Secrets, domain: str, name: str) -> str:
    """Token of a part of the pool; the same for the same signing key."""
    key = secrets.get(SIGNING_KEY.name, SIGNING_KEY.make)
    return idtoken(key, f"{name}@{domain}", domain, SCOPES[name])


def execute_secret(context: ServiceContext[Any]) -> Mapping[str, str]:
    """What execution points have: a token that cannot do more than join the pool."""
    return {"execute-token": daemon_token(context.secrets, context.site.domain, EXECUTE)}


def secret_data(context: ServiceContext[HTCondor]) -> Mapping[str, str]:
    """Tokens beside the signing key, and what the provisioner is known by at the access point."""
    secret = context.secrets.get(TOKEN_SECRET.name, TOKEN_SECRET.make)
    return {
        "provisioner-secret": hmac.new(secret.encode(), PROVISIONER.encode(), "sha256").hexdigest(),
        **{f"{n}-token": daemon_token(context.secrets, context.site.domain, n) for n in (MONITOR, PROVISIONER)},
    }


NAMESPACE = Namespace("htcondor", pod_security="restricted")
QUOTA = TenantQuota("job", NAMESPACE.name, "htcondor-provisioner")
EXECUTE_NAMESPACE = Namespace("htcondor-execute", pod_security="baseline", secret=execute_secret)
MODELS = HuggingFace("app.kubernetes.io/name=htcondor", EXECUTE_NAMESPACE.name)
"""Jobs load models and datasets by it."""


def spool(settings: HTCondor) -> SharedVolume:
    """The volume with the job queue, the spool and the accountant's records."""
    size = f"{settings.spool.gibibytes}Gi"
    return SharedVolume("htcondor-spool", owner=USER_ID, group=USER_ID, mode="0700", size=size)


def card(settings: HTCondor) -> Accelerators | None:
    """Of an execution point with cards."""
    return None if settings.accelerator is None else Accelerators(1, settings.accelerator)


def shared_folders(settings: HTCondor) -> TenantFolders | None:
    """The folders of tenants, if the site shares them with jobs."""
    return TenantFolders(settings.shared_export, EXECUTE_NAMESPACE.name) if settings.shared_export else None


def needs(settings: HTCondor) -> tuple[Need[Any], ...]:
    """Namespaces, the signing key, a volume, priorities, and where jobs may use them cards and folders."""
    optional = (card(settings), shared_folders(settings))
    return (
        NAMESPACE,
        EXECUTE_NAMESPACE,
        SIGNING_KEY,
        TOKEN_SECRET,
        ENTRY,
        PRIORITY,
        JOB_PRIORITY,
        QUOTA,
        METRICS,
        MODELS,
        spool(settings),
        *(need for need in optional if need is not None),
    )
