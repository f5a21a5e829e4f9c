"""Values of helm/dask-gateway."""

from __future__ import annotations

from strata.catalogue.issuer import tenant_group
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import ServiceContext, Values
from strata.catalogue.site_needs import dask_hub
from strata.errors import UserError
from strata_services.dask_gateway.needs import HOSTNAME, HUB_TOKEN, NAME, PRIORITY, SCHEDULER_PRIORITY, WORKER_PRIORITY
from strata_services.dask_gateway.settings import DaskGateway


def values(context: ServiceContext[DaskGateway]) -> Values:
    """Values of helm/dask-gateway.

    Raises:
        UserError: the image is missing, or the site has no hub.
    """
    settings, hub = context.settings, dask_hub(context.site)
    if hub is None:
        raise UserError(
            f"site {context.site.name}: platform.services.dask_gateway needs JupyterHub", fix="add jupyterhub: {}"
        )
    return {
        "image": context.image,
        "hub": {"url": hub.url, "service": NAME, "existingSecret": context.provide(HUB_TOKEN).value},
        "ingress": context.provide(HOSTNAME),
        "tenants": [{"name": t.name, "group": tenant_group(t.name)} for t in context.site.platform.tenants],
        "users": dict(hub.users),
        "clusters": {
            "perUser": settings.clusters_per_user,
            "idleSeconds": settings.idle_seconds,
            "maximumWorkers": settings.maximum_workers,
            "serverCheckSeconds": settings.server_check_seconds,
            "scratch": f"{settings.scratch.mebibytes}Mi",
            "worker": {
                "cpu": settings.worker_cpu,
                "memory": settings.worker_memory.bytes,
                "millicpusPerCpu": settings.millicpus_per_cpu,
                "priorityClassName": context.provide(WORKER_PRIORITY),
            },
            "scheduler": {
                "memory": settings.scheduler_memory.bytes,
                "priorityClassName": context.provide(SCHEDULER_PRIORITY),
            },
        },
        "networkPolicy": {
            "clients": [dict(hub.servers), INGRESS_CONTROLLER],
            "hub": dict(hub.pods),
            "hubPort": hub.port,
        },
        "priorityClassName": context.provide(PRIORITY),
    }
