"""Values of helm/htcondor."""

from __future__ import annotations

from strata.catalogue.need import pods_peer
from strata.catalogue.needs.batch_queue import BatchServer
from strata.catalogue.service import ServiceContext, Values, image
from strata.catalogue.site_needs import job_images, queue_clients, schedd_clients
from strata.models.site import Site
from strata_services.htcondor.needs import (
    EXECUTE_NAMESPACE,
    JOB_PRIORITY,
    METRICS,
    MODELS,
    MONITOR,
    NAMESPACE,
    PRIORITY,
    QUOTA,
    TOKEN_SECRET,
    card,
    daemon_token,
    shared_folders,
    spool,
)
from strata_services.htcondor.schedds import schedds
from strata_services.htcondor.settings import HTCondor, TenantShare

PORT, TOKENS_PORT = 9618, 8080
OWN_IMAGE = "htcondor"
"""What jobs give as StrataImage for the pool's own image."""
PODS = {"app.kubernetes.io/name": "htcondor"}


def batch_server(site: Site) -> BatchServer:
    """The pool, for other services."""
    return BatchServer(
        collector=f"htcondor-central-manager.{NAMESPACE.name}.svc:{PORT}",
        schedds=schedds(site),
        domain=site.domain,
        pods=pods_peer(NAMESPACE.name, PODS),
        port=PORT,
        tokens_url=f"http://htcondor-access-point.{NAMESPACE.name}.svc:{TOKENS_PORT}/tokens",
        tokens_port=TOKENS_PORT,
        token_secret=lambda secrets: secrets.get(TOKEN_SECRET.name, TOKEN_SECRET.make),
        monitor_token=lambda secrets: daemon_token(secrets, site.domain, MONITOR),
    )


def shares(settings: HTCondor, site: Site) -> list[Values]:
    """Limits of all tenants, from the settings or from the tenants' quotas, and who reaches the port of each."""
    queues, clients = schedds(site), schedd_clients(site)
    given = {share.name: share for share in settings.tenants}
    entries = []
    for tenant in site.platform.tenants:
        share = given.get(tenant.name, TenantShare(name=tenant.name))
        cards = tenant.quota.accelerators.get(settings.accelerator, 0) if settings.accelerator else 0
        entries.append(
            {
                "name": tenant.name,
                "cpus": tenant.quota.cpu if share.cpus is None else share.cpus,
                "memory": (share.memory or tenant.quota.memory).mebibytes,
                "cards": cards if share.cards is None else share.cards,
                "priorityFactor": share.priority_factor,
                "port": queues[tenant.name].port,
                "clients": clients[tenant.name],
            }
        )
    return entries


def values(context: ServiceContext[HTCondor]) -> Values:
    """Values of helm/htcondor.

    Raises:
        UserError: the image is missing.
    """
    settings, metrics = context.settings, context.provide(METRICS)
    clients, token_clients = queue_clients(context.site)
    models = context.provide(MODELS)
    return {
        "image": context.image,
        "domain": context.site.domain,
        "existingSecret": context.service.secret_name,
        "spool": {"existingClaim": context.provide(spool(settings))},
        "tenants": shares(settings, context.site),
        "queues": list(settings.queues),
        "accounting": {"halfLife": settings.half_life_seconds},
        "tokens": {"lifetime": settings.token_seconds, "clients": token_clients},
        "clients": clients,
        "execute": {
            "namespace": context.provide(EXECUTE_NAMESPACE),
            "existingSecret": context.service.secret_name,
            "priorityClassName": context.provide(JOB_PRIORITY),
            "maximum": settings.maximum_execution_points,
            "idle": settings.idle_seconds,
            "lifetime": settings.lifetime_seconds,
            "vacate": settings.vacate_seconds,
            "millicpus": settings.millicpus_per_cpu,
            "scratch": f"{settings.scratch.mebibytes}Mi",
            "card": _card(context),
            "shared": _shared_folders(context),
            "reservation": context.provide(QUOTA),
            "environment": models.environment if models else {},
            "egress": [models.egress] if models else [],
            **_images(context),
        },
        "networkPolicy": {"metricsClients": [dict(client) for client in metrics.clients]},
        "podAnnotations": dict(metrics.annotations),
        "priorityClassName": context.provide(PRIORITY),
    }


def _images(context: ServiceContext[HTCondor]) -> Values:
    """Images for jobs; those of the site's registry are what the services' own pods run."""
    settings, shared = context.settings, job_images(context.site)
    images = {name: image(context.pushed, short) for name, short in shared.items()}
    return {
        "images": {name: f"{reference['repository']}@{reference['digest']}" for name, reference in images.items()}
        | {entry.name: entry.image for entry in settings.images},
        "defaultImage": settings.default_image or next(iter(shared), OWN_IMAGE),
    }


def _shared_folders(context: ServiceContext[HTCondor]) -> Values:
    """By tenant."""
    need = shared_folders(context.settings)
    if need is None:
        return {}
    claims = context.provide(need)
    # validation refuses such exports where a tenant has no group
    return {t.name: {"claim": claims[t.name], "group": t.group_id} for t in context.site.platform.tenants}


def _card(context: ServiceContext[HTCondor]) -> Values:
    need = card(context.settings)
    if need is None:
        return {}
    access = context.provide(need)
    return {
        "resource": access.resource,
        "nodeSelector": dict(access.node_selector),
        "tolerations": [dict(toleration) for toleration in access.tolerations],
        "countedAs": access.counted_as,
    }
